// What can be done with the agents of an ensemble that is edited.

import { button, complain, fill, h } from '/base.js';
import { settings } from '/form.js';

const KINDS = [
  ['script', 'Script', 'Path or command'], ['model', 'Model', 'provider/model'], ['model_profile', 'Model by profile', 'Name of the profile'],
  ['input', 'Question to a person', 'Question'], ['ensemble', 'Ensemble', 'Name or path'], ['acp', 'External agent', 'Name of the program'],
];

let serial = 0;

function labelled(label, element) {
  serial += 1;
  element.id = `field-${serial}`;
  return h('div', { class: 'field' }, h('label', { for: element.id }, label), element);
}

function submits(element, made) {
  element.addEventListener('keydown', event => {
    if (event.key !== 'Enter' || event.isComposing) return;
    event.preventDefault();
    made.click();
  });
  return element;
}

/** The form for a new agent. */
export function adding(agents, change) {
  const name = h('input', { autocomplete: 'off' });
  const kind = h('select', {}, KINDS.map(([key, label]) => h('option', { value: key }, label)));
  const value = h('input', { autocomplete: 'off', placeholder: KINDS[0][2] });
  const prompt = h('input', { autocomplete: 'off' });
  const to = h('select', {}, h('option', { value: '' }, '—'), agents.map(agent => h('option', { value: agent.name }, agent.name)));
  const prompted = labelled('Prompt', prompt);
  const show = () => {
    value.placeholder = KINDS.find(([key]) => key === kind.value)[2];
    prompted.hidden = ['script', 'input'].includes(kind.value);
  };
  kind.addEventListener('change', show);
  show();
  const add = button('Add agent', async () => {
    await change({ do: 'add_agent', name: name.value.trim(), kind: kind.value, value: value.value, prompt: prompt.value || null, listens_to: to.value ? [to.value] : [] }, name.value.trim());
  });
  for (const one of [name, value, prompt]) submits(one, add);
  return h('details', { class: 'adding', open: agents.length === 0 }, h('summary', {}, 'Add an agent'),
    labelled('Name', name), labelled('Kind', kind), labelled('What it runs', value), prompted, labelled('Listens to', to), add);
}

function dependency(agent, one, at, change) {
  const condition = submits(h('input', { autocomplete: 'off', value: one.condition ?? '', 'aria-label': `Condition with which ${agent.name} listens to ${one.to}`, placeholder: 'no condition' }), { click: () => set.click() });
  const place = { agent: agent.name, at, to: one.to };
  const set = button('Set', () => change({ do: 'set_condition', ...place, condition: condition.value.trim() || null }), { 'aria-label': `Set the condition on ${one.to}` });
  const remove = button('Remove', () => change({ do: 'disconnect', ...place }), { 'aria-label': `Remove the dependency on ${one.to}` });
  return h('li', {}, h('strong', {}, one.to), h('div', { class: 'actions' }, condition, set, remove), keys(one, at, (key, value) => change({ do: 'set_key', ...place, key, value })));
}

/** The other keys of a dependency. A change is written at once; one that is refused is taken back. */
function keys(one, at, set) {
  const written = (element, was, value) => {
    element.dataset.stays = `${at} ${one.to} ${element.dataset.key}`;
    element.addEventListener('change', async () => {
      try {
        complain(element, '');
        await set(element.dataset.key, value());
      } catch (error) {
        was();
        complain(element, error.message);
      }
    });
    return element;
  };
  const box = h('input', { type: 'checkbox', checked: one.feedback, 'data-key': 'feedback' });
  const feedback = h('label', { class: 'check' }, written(box, () => { box.checked = one.feedback; }, () => box.checked), ' Closes a loop (feedback)', h('span', { class: 'unseen' }, `: ${one.to}`));
  const of = label => [label, h('span', { class: 'unseen' }, ` (${one.to})`)];
  const choice = (key, label, words) => {
    const now = one[key] ?? words[0];
    const known = words.includes(now) ? words : [now, ...words];
    const element = h('select', { 'data-key': key }, known.map(word => h('option', { value: word }, word)));
    element.value = now;
    return labelled(of(label), written(element, () => { element.value = now; }, () => element.value));
  };
  const most = h('input', { type: 'number', min: '1', step: '1', value: one.max_executions ?? '', placeholder: 'no limit', 'data-key': 'max_executions' });
  const limit = labelled(of('Starts at most'), written(most, () => { most.value = one.max_executions ?? ''; }, () => (most.value === '' ? null : Number(most.value))));
  const needed = h('input', { type: 'checkbox', checked: one.requires_all !== 'false', 'data-key': 'requires_all' });
  const required = h('label', { class: 'check' }, written(needed, () => { needed.checked = one.requires_all !== 'false'; }, () => needed.checked), ' Must hold (requires_all)', h('span', { class: 'unseen' }, `: ${one.to}`));
  const isOpen = ['on', 'wait_for', 'max_executions', 'requires_all'].some(key => one[key] !== null);
  return h('div', { class: 'keys-of' }, feedback, h('details', { open: isOpen }, h('summary', {}, 'More', h('span', { class: 'unseen' }, ` about ${one.to}`)),
    h('div', { class: 'beside' }, choice('on', 'After', ['success', 'failure', 'any']), choice('wait_for', 'Waits for', ['update', 'settled', 'nothing']), limit), required));
}

/** What belongs to the agent that is selected. `act` has `change`, `show`, `pick` and `close`. */
export function selected(agent, agents, act) {
  const name = h('input', { autocomplete: 'off', value: agent.name });
  const rename = button('Rename', () => act.change({ do: 'rename', agent: agent.name, name: name.value.trim() }, name.value.trim()));
  submits(name, rename);
  const others = agents.filter(other => !agent.dependencies.some(one => one.to === other.name)).sort((one, other) => (one === agent) - (other === agent));
  const to = h('select', {}, others.map(other => h('option', { value: other.name }, other.name)));
  const condition = h('input', { autocomplete: 'off', placeholder: 'no condition' });
  const feedback = h('input', { type: 'checkbox', id: 'feedback' });
  const connect = button('Connect', () => act.change({ do: 'connect', agent: agent.name, to: to.value, condition: condition.value.trim() || null, feedback: feedback.checked }));
  submits(condition, connect);
  return h('section', { class: 'chosen', 'aria-label': `Agent ${agent.name}` },
    h('div', { class: 'side-head' }, h('h2', { tabindex: '-1' }, agent.name, ' ', h('small', {}, (agent.kind ?? '').replace('_', ' '))),
      h('button', { type: 'button', class: 'close', 'aria-label': 'Close', onclick: act.close }, '×')),
    labelled('Name', name),
    h('div', { class: 'actions' }, rename, button('Show in the text', act.show),
      button('Remove agent', () => act.change({ do: 'remove_agent', agent: agent.name }, null))),
    h('section', { 'aria-label': `Keys of ${agent.name}` }, settings(act.keys, agent.type, agent.values, agent.name, (path, value) => act.change({ do: 'set_value', agent: agent.name, path, ...value }))),
    h('h3', {}, 'Listens to'),
    agent.dependencies.length ? h('ul', { class: 'plain' }, agent.dependencies.map((one, at) => dependency(agent, one, at, act.change))) : h('p', { class: 'quiet' }, 'No agent by name.'),
    others.length > 0 && h('fieldset', {}, h('legend', {}, 'Listen to another agent'), labelled('Agent', to), labelled('Condition', condition),
      h('div', {}, feedback, ' ', h('label', { for: 'feedback' }, 'Closes a loop (feedback)')),
      h('div', { class: 'actions' }, connect, button('Choose it in the graph', act.pick))));
}

/** What belongs to the file: its inputs, its result, its limits. */
export function fileSettings(values, keys, change) {
  return h('details', { class: 'file-settings' }, h('summary', {}, 'Settings of the file'),
    settings(keys, 'file', values, 'the file', (path, value) => change({ do: 'set_value', path, ...value }), (input, name) => change({ do: 'rename', input, name })));
}

/** The findings, each with its place and its fix. */
export function findings(place, found, go, fix) {
  const words = { error: 'Error', warning: 'Warning', hint: 'Hint' };
  fill(place, found.map(one => {
    const where = one.at ? `line ${one.at.line}` : one.file;
    const head = [h('span', { class: `severity ${one.severity}` }, `${words[one.severity]} ${one.code}`), ` ${where}: ${one.message}`];
    return h('li', {}, one.at ? h('button', { type: 'button', class: 'plain-button', onclick: () => go(one.at) }, head) : h('p', {}, head),
      one.help && h('p', { class: 'quiet' }, one.help),
      one.fix && button(`Fix: ${one.fix.title}`, () => fix(one.fix), { class: 'fix' }));
  }));
}
