// A map from names of the user to maps whose keys are known, such as `inputs`: the names one by one, each with fields for its keys.

import { button, complain, h } from '/base.js';

/** The keys of each value of such a map; undefined: the key is something else. */
export const valueKeys = schema => schema.additionalProperties?.properties;

/** The value with which a key that had none becomes optional. */
function neutral({ type, enum: words, minimum }) {
  if (Array.isArray(words)) return words[0];
  return { string: '', integer: minimum ?? 0, number: minimum ?? 0, boolean: false, array: [], object: {} }[type] ?? '';
}

/** The form of the default, which is that of the value. */
function defaultForm({ type, enum: words, minimum }, { description }) {
  if (Array.isArray(words)) return { enum: words, description };
  return ['string', 'integer', 'number', 'boolean'].includes(type) ? { type, minimum, description } : { description };
}

/** A choice among the examples of a key, and the value that it has. */
function chosenForm({ examples = [], description }, value) {
  const isKnown = value === undefined || value === null || examples.includes(value);
  return { enum: isKnown ? examples : [value, ...examples], description };
}

/** The box that makes a value required: a value without a default is. */
function requiredBox(name, spec, path, owner, set) {
  const box = h('input', { type: 'checkbox', checked: spec.default === undefined, 'data-stays': `${owner} ${path.join('.')} required` });
  box.addEventListener('change', async () => {
    try {
      complain(box, '');
      await set([...path, 'default'], { value: box.checked ? null : neutral(spec) });
    } catch (error) {
      box.checked = !box.checked;
      complain(box, error.message);
    }
  });
  return h('label', { class: 'check' }, box, ' Required', h('span', { class: 'unseen' }, `: ${name}`));
}

/** The field for another name, and the button that gives it. */
function renaming(name, path, owner, rename) {
  const stays = `${owner} ${path.join('.')} rename`;
  const wanted = h('input', { autocomplete: 'off', value: name, 'aria-label': `Name of ${name}`, 'data-stays': stays });
  const give = button('Rename', () => rename(name, wanted.value.trim()), { 'aria-label': `Rename ${name}`, 'data-stays': stays });
  wanted.addEventListener('keydown', event => {
    if (event.key !== 'Enter' || event.isComposing) return;
    event.preventDefault();
    give.click();
  });
  return h('div', { class: 'actions' }, wanted, give);
}

function namedValue(name, value, { key, path }, owner, set, field, rename) {
  const spec = typeof value === 'object' && value !== null ? value : {};
  const keys = valueKeys(key.schema);
  const own = [...path, name];
  const isNumber = ['integer', 'number'].includes(spec.type);
  const forms = { ...keys, type: keys.type && chosenForm(keys.type, spec.type), default: keys.default && defaultForm(spec, keys.default) };
  const make = inner => field({ key: { schema: forms[inner] }, path: [...own, inner], value: spec[inner], label: [inner, h('span', { class: 'unseen' }, ` of ${name}`)] }, owner, set);
  const first = ['type', 'default', 'description'].filter(inner => forms[inner]);
  const isMore = inner => !first.includes(inner) && (spec[inner] !== undefined || isNumber || !['minimum', 'maximum'].includes(inner));
  const more = Object.keys(keys).filter(isMore);
  const isOpen = more.some(inner => spec[inner] !== undefined);
  return h('fieldset', { class: 'named', 'aria-label': name }, h('legend', {}, name),
    rename && renaming(name, path, owner, rename),
    keys.default && requiredBox(name, spec, own, owner, set),
    h('div', { class: 'beside' }, first.map(make)),
    more.length > 0 && h('details', { open: isOpen }, h('summary', {}, 'More', h('span', { class: 'unseen' }, ` about ${name}`)), h('div', { class: 'beside' }, more.map(make))),
    button('Remove', () => set(own, { value: null }), { 'aria-label': `Remove ${name}`, 'data-stays': `${owner} ${path.join('.')} add` }));
}

/** All values of the map, and a form for another one. */
export function namedValues(row, owner, set, field, rename) {
  const { key, path, value } = row;
  const values = typeof value === 'object' && value !== null ? value : {};
  const about = (key.schema.description ?? '').replaceAll('`', '');
  const stays = `${owner} ${path.join('.')} add`;
  const name = h('input', { autocomplete: 'off', 'aria-label': `Name of a new entry of ${path.join('.')}`, placeholder: 'name', 'data-stays': stays });
  const kinds = valueKeys(key.schema).type?.examples ?? [];
  const kind = h('select', { 'aria-label': `Type of the new entry of ${path.join('.')}` }, kinds.map(word => h('option', { value: word }, word)));
  const add = button('Add', async () => {
    const wanted = name.value.trim();
    if (!new RegExp(key.schema.propertyNames?.pattern ?? '.').test(wanted)) throw new Error(`\`${wanted}\` cannot be a name here: use letters, digits and \`_\`, and do not start with a digit`);
    if (values[wanted] !== undefined) throw new Error(`\`${wanted}\` exists already; choose another name`);
    await set([...path, wanted], { value: kind.value ? { type: kind.value } : {} });
  }, { 'aria-label': `Add to ${path.join('.')}`, 'data-stays': stays });
  name.addEventListener('keydown', event => {
    if (event.key !== 'Enter' || event.isComposing) return;
    event.preventDefault();
    add.click();
  });
  return h('section', { class: 'field', 'aria-label': path.join('.') }, h('p', {}, h('strong', {}, path.join('.'))), about && h('p', { class: 'quiet about' }, about),
    Object.entries(values).map(([entry, inner]) => namedValue(entry, inner, row, owner, set, field, rename)),
    h('div', { class: 'actions' }, name, kind, add));
}
