// A form for a new run, made of the inputs that an ensemble declares.

import { button, count, fill, get, h, main, post, runLink, say, trouble } from '/base.js';

/** A field for an input, and its value: undefined where nothing was given. */
function field(input) {
  const { schema, type } = input;
  const id = `input-${input.name}`;
  const label = h('label', { for: id }, input.name, ' ', h('small', {}, input.default === null ? `${type}, required` : type));
  const about = input.description && h('p', { class: 'quiet', id: `${id}-about` }, input.description);
  const described = { id, 'aria-describedby': input.description ? `${id}-about` : null };
  const preset = input.default;
  let element;
  let value;
  if (Array.isArray(schema.enum)) {
    element = h('select', described, preset === null && h('option', { value: '' }, '—'), schema.enum.map((one, at) => h('option', { value: String(at) }, String(one))));
    if (preset !== null) element.value = String(schema.enum.findIndex(one => JSON.stringify(one) === JSON.stringify(preset)));
    value = () => (element.value === '' ? undefined : schema.enum[Number(element.value)]);
  } else if (schema.type === 'boolean') {
    element = h('select', described, h('option', { value: '' }, preset === null ? '—' : `default: ${preset}`), h('option', { value: 'true' }, 'true'), h('option', { value: 'false' }, 'false'));
    value = () => (element.value === '' ? undefined : element.value === 'true');
  } else if (schema.type === 'integer' || schema.type === 'number') {
    element = h('input', { ...described, type: 'number', step: schema.type === 'integer' ? '1' : 'any', min: schema.minimum, max: schema.maximum, placeholder: preset ?? '' });
    value = () => (element.value === '' ? undefined : Number(element.value));
  } else {
    const isText = schema.type === 'string';
    element = h('textarea', { ...described, rows: '2', placeholder: preset === null ? (isText ? '' : 'JSON') : (isText ? preset : JSON.stringify(preset)) });
    value = () => (element.value === '' ? undefined : element.value);
  }
  return { name: input.name, value, control: element, element: h('div', { class: 'field' }, label, about, element) };
}

/** Says at each field what is wrong with it. Returns whether each error has a field. */
function tellErrors(fields, errors) {
  for (const { name, control } of fields) {
    const text = errors[name];
    control.nextElementSibling?.remove();
    control.toggleAttribute('aria-invalid', Boolean(text));
    if (text) control.setAttribute('aria-invalid', 'true');
    const others = (control.getAttribute('aria-describedby') ?? '').split(' ').filter(id => id && !id.endsWith('-error'));
    const ids = text ? [...others, `${control.id}-error`] : others;
    if (ids.length) control.setAttribute('aria-describedby', ids.join(' '));
    else control.removeAttribute('aria-describedby');
    if (text) control.after(h('p', { class: 'failure', id: `${control.id}-error` }, text));
  }
  const wrong = fields.filter(({ name }) => errors[name]);
  wrong[0]?.control.focus();
  return wrong.length > 0 && wrong.length === Object.keys(errors).length;
}

function form(ensemble) {
  const fields = (ensemble.inputs ?? []).map(field);
  const task = h('textarea', { id: 'task', rows: '3', placeholder: ensemble.default_task ?? '' });
  const start = button('Start', async () => {
    const values = Object.fromEntries(fields.map(one => [one.name, one.value()]).filter(([, value]) => value !== undefined));
    const body = { ensemble: ensemble.file, values };
    if (task.value) body.input = task.value;
    tellErrors(fields, {});
    try {
      const made = await post('/api/start', body);
      location.hash = runLink(made.id);
    } catch (error) {
      if (!tellErrors(fields, error.fields ?? {})) throw error;
      say(Object.values(error.fields).join('. '));
    }
  }, { class: 'first' });
  return h('form', { onsubmit: event => event.preventDefault() }, fields.map(one => one.element),
    h('div', { class: 'field' }, h('label', { for: 'task' }, 'Input'), task), start);
}

export function showStart([name]) {
  document.title = 'New run · ensemble';
  fill(main(), h('h1', {}, name ? `New run of ${name}` : 'New run'), h('p', { class: 'quiet' }, 'Loading…'));
  load(name).catch(error => (error.status === 401 ? dispatchEvent(new Event('locked')) : trouble(error.message)));
  return {};
}

/** A link to the text of the ensemble, if it stands where the page may write. */
function editing(ensemble) {
  return ensemble.editable && h('a', { href: `#/edit/${encodeURIComponent(ensemble.name)}`, 'aria-label': `Edit ${ensemble.name}` }, 'Edit');
}

/** The test files of the ensemble, which can be edited. */
function testing(ensemble) {
  return ensemble.tests.map(file => h('a', { href: `#/edit/${encodeURIComponent(ensemble.name)}/${encodeURIComponent(file)}` }, file.split('/').at(-1)));
}

/** A form that creates an ensemble. */
function creating(isOpen) {
  const name = h('input', { id: 'new-name', autocomplete: 'off', 'aria-describedby': 'new-about' });
  const create = button('Create', async () => {
    const made = await post('/api/design/new', { name: name.value });
    location.hash = `#/edit/${encodeURIComponent(made.name)}`;
  });
  return h('details', { class: 'creating', open: isOpen }, h('summary', {}, 'New ensemble'),
    h('form', { class: 'field', onsubmit: event => { event.preventDefault(); create.click(); } },
      h('label', { for: 'new-name' }, 'Name of a new ensemble'), h('div', { class: 'actions' }, name, create),
      h('p', { class: 'quiet', id: 'new-about' }, 'Letters, digits, _, . and -. It begins as a chat with a simulated model, and opens in the editor.')));
}

/** The ensembles, each with what can be done with it. */
export function ensembleCards(ensembles, heading) {
  return h('ul', { class: 'cards' }, ensembles.map(one => h('li', {}, h(heading, {}, h('a', { href: `#/new/${encodeURIComponent(one.name)}` }, one.name)),
    one.description && h('p', {}, one.description), h('p', { class: 'quiet' }, `${one.file} · ${one.errors.length ? count(one.errors.length, 'error') : count(one.agents.length, 'agent')}`),
      h('p', { class: 'actions' }, h('a', { href: `#/new/${encodeURIComponent(one.name)}`, 'aria-label': `Start ${one.name}` }, 'Start'), editing(one), testing(one)))));
}

async function load(name) {
  const ensembles = await get('/api/ensembles');
  if (!name) {
    const list = ensembleCards(ensembles, 'h2');
    fill(main(), h('h1', {}, 'New run'), creating(ensembles.length === 0), ensembles.length ? list : h('p', {}, 'There is no ensemble here yet.'));
    return;
  }
  const ensemble = ensembles.find(one => one.name === name);
  const head = h('h1', {}, `New run of ${name}`);
  if (!ensemble) fill(main(), head, h('p', {}, 'There is no ensemble of this name.'));
  else if (ensemble.errors.length) fill(main(), head, h('p', {}, 'It has errors:'), h('ul', {}, ensemble.errors.map(text => h('li', {}, text))), h('p', {}, editing(ensemble)));
  else fill(main(), head, ensemble.description && h('p', {}, ensemble.description), h('p', {}, editing(ensemble)), form(ensemble));
}
