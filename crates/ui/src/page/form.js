// Fields for the keys of an agent or of the file. The keys, their descriptions and their values come from the table of keys of the language.

import { h, trouble } from '/base.js';
import { namedValues, valueKeys } from '/named.js';

/** The keys that are asked for first, by type of agent; the others are behind a fold. Keys inside of a map have a dot. */
const FIRST = {
  llm: ['model', 'model_profile', 'prompt', 'system_prompt', 'tools', 'conversation.max_turns', 'output_schema'],
  script: ['script', 'args', 'conversation.max_turns'],
  input: ['input.prompt', 'input.choices', 'input.default', 'conversation.max_turns'],
  ensemble: ['ensemble', 'prompt', 'inputs', 'conversation.max_turns'],
  acp: ['acp', 'prompt', 'conversation.max_turns'],
  tool: ['tool', 'arguments', 'conversation.max_turns'],
  file: ['description', 'default_task', 'inputs', 'result', 'success', 'conversation_limits.max_total_turns', 'conversation_limits.timeout_seconds', 'conversation_limits.max_cost'],
};
/** What other forms are for. */
const ELSEWHERE = ['name', 'type', 'depends_on', 'dependencies', 'agents'];

let serial = 0;

/** Does the schema accept only texts? */
const isText = schema => schema.type === 'string' && !schema.enum;
const isList = schema => schema.type === 'array' && schema.items?.type === 'string';

/** The value of a key as a text for its field. */
function written(schema, value) {
  if (value === undefined || value === null) return '';
  if (isList(schema) && Array.isArray(value)) return value.join('\n');
  if (typeof value === 'string' && isText(schema)) return value;
  return typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value);
}

/** What a field gives: `{value}`, or `{yaml}` where any value can stand. `null` removes the key. */
function given(schema, text) {
  if (text.trim() === '') return { value: null };
  if (schema.enum) return { value: schema.enum.find(one => String(one) === text) };
  if (schema.type === 'boolean') return { value: text === 'true' };
  if (schema.type === 'integer' || schema.type === 'number') return { value: Number(text) };
  if (isText(schema)) return { value: text };
  if (isList(schema)) return { value: text.split('\n').map(line => line.trim()).filter(line => line) };
  return { yaml: text };
}

function control(schema, properties) {
  const nothing = schema.default === undefined ? '—' : `default: ${JSON.stringify(schema.default)}`;
  const words = schema.enum ?? (schema.type === 'boolean' ? [true, false] : null);
  if (words) return h('select', properties, h('option', { value: '' }, nothing), words.map(word => h('option', { value: String(word) }, String(word))));
  const example = schema.examples?.[0];
  const hint = schema.default !== undefined ? nothing : example === undefined ? '' : `for example ${typeof example === 'string' ? example : JSON.stringify(example)}`;
  if (schema.type === 'integer' || schema.type === 'number') {
    return h('input', { ...properties, type: 'number', step: schema.type === 'integer' ? '1' : 'any', min: schema.minimum, placeholder: hint });
  }
  const isLine = isText(schema) && schema.pattern !== undefined;
  if (isLine) return h('input', { ...properties, autocomplete: 'off', placeholder: hint });
  return h('textarea', { ...properties, rows: isText(schema) || isList(schema) ? '2' : '3', placeholder: isList(schema) ? 'one in each line' : hint });
}

/** A field for a key. `set` writes the value; what it refuses is said at the field. `label`: its name, if the path is told around it. */
export function field({ key, path, value, label }, owner, set) {
  serial += 1;
  const id = `key-${serial}`;
  const { schema } = key;
  const about = (schema.description ?? '').replaceAll('`', '');
  const described = about ? `${id}-about` : '';
  const element = control(schema, { id, title: label ? about : null, 'aria-describedby': described || null, 'data-stays': `${owner} ${path.join('.')}` });
  const was = written(schema, value);
  element.value = was;
  const wrong = h('p', { class: 'failure', id: `${id}-error`, role: 'alert', hidden: true });
  const say = text => {
    wrong.textContent = text;
    wrong.hidden = !text;
    if (text) element.setAttribute('aria-invalid', 'true');
    else element.removeAttribute('aria-invalid');
    const ids = [described, text && wrong.id].filter(one => one).join(' ');
    if (ids) element.setAttribute('aria-describedby', ids);
    else element.removeAttribute('aria-describedby');
  };
  let sent = null;
  element.addEventListener('change', async () => {
    if (element.value === was) {
      say('');
      return;
    }
    // A browser can report a change of its own for the key Enter.
    if (element.value === sent) return;
    sent = element.value;
    try {
      trouble('');
      // What was refused stays until there is an answer: if it went at once, the place of a click would move.
      await set(path, given(schema, sent));
      say('');
    } catch (error) {
      say(error.message);
    } finally {
      sent = null;
    }
  });
  if (element.tagName === 'INPUT') {
    element.addEventListener('keydown', event => {
      if (event.key === 'Enter' && !event.isComposing) element.dispatchEvent(new Event('change'));
    });
  }
  return h('div', { class: 'field' }, h('label', { for: id }, label ?? path.join('.')), about && h('p', { class: label ? 'unseen' : 'quiet about', id: `${id}-about` }, about), element, wrong);
}

/** The keys that this type has, each with its path and its value; those of maps one by one. */
function flatten(keys, type, values, path = []) {
  return keys.filter(key => key.kinds.length === 0 || key.kinds.includes(type)).flatMap(key => {
    const own = [...path, key.name];
    const value = values?.[key.name];
    if (key.inner.length === 0) return [{ key, path: own, value }];
    // A question can be only its text.
    return flatten(key.inner, type, typeof value === 'string' ? { prompt: value } : value, own);
  });
}

/** The fields for all keys that an agent or the file can have. `type`: of the agent, or `file`; `rename`: gives an input of the file another name. */
export function settings({ agent, file, choosers }, type, values, owner, set, rename) {
  const isOther = key => choosers.includes(key.name) && values?.[key.name] === undefined;
  const keys = type === 'file' ? file : agent;
  const rows = flatten(keys.filter(key => !ELSEWHERE.includes(key.name) && !isOther(key)), type, values);
  const first = FIRST[type] ?? [];
  const name = row => row.path.join('.');
  const shown = first.flatMap(wanted => rows.filter(row => name(row) === wanted));
  const isSet = row => row.value !== undefined && !first.includes(name(row));
  const more = rows.filter(row => !first.includes(name(row)) && !isSet(row));
  const make = row => (valueKeys(row.key.schema) ? namedValues(row, owner, set, field, name(row) === 'inputs' ? rename : undefined) : field(row, owner, set));
  return [shown.map(make), rows.filter(isSet).map(make),
    more.length > 0 && h('details', { class: 'more' }, h('summary', {}, 'More keys', h('span', { class: 'unseen' }, ` of ${owner}`)), more.map(make))];
}
