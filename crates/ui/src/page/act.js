// What can be done with a run: answer, permit, stop, resume, continue.

import { block, button, h, post, runLink } from '/base.js';
import { answerName, signature } from '/signature.js';

/** An answer to a question; with choices, one of them. */
function question(run, asked) {
  const { address, digest, refused, shown } = asked;
  const send = answer => post('/api/answer', { id: asked.outermost_run ?? run.id, address, digest, answer, user: answerName() });
  const heading = h('h2', {}, `${shown.address} asks`);
  const prompt = h('p', { class: 'text' }, shown.prompt);
  const told = refused && h('p', { class: 'failure' }, `The last answer was refused: ${refused}`);
  if (asked.choices.length > 0) {
    return h('section', { class: 'ask' }, heading, prompt, told, h('div', { class: 'actions' }, asked.choices.map((choice, at) => button(shown.choices[at], () => send(choice)))));
  }
  const field = h('textarea', { rows: '2', 'aria-label': `Answer to ${shown.address}` });
  const answer = button('Answer', () => send(field.value));
  field.addEventListener('keydown', event => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) answer.click();
  });
  return h('section', { class: 'ask' }, heading, prompt, told, field, h('div', { class: 'actions' }, answer));
}

function permission(run, asked) {
  const { address, digest, shown } = asked;
  const decide = decision => () => post('/api/permit', { id: asked.outermost_run ?? run.id, address, digest, decision, user: answerName() });
  return h('section', { class: 'ask' }, h('h2', {}, `${shown.address} wants to call ${shown.tool}`), h('h3', {}, 'Arguments'), block(shown.arguments),
    h('div', { class: 'actions' }, button('Allow once', decide('once')), button('Allow in this run', decide('always')), button('Deny', decide('denied'))));
}

/** All that waits for a person. */
export function waiting(run) {
  const { waiting: open, questions } = run.head;
  const here = [...open.questions, ...open.permissions].sort((one, other) => one.position - other.position);
  const all = [...here, ...questions].map(one => (one.permission ? permission(run, one) : question(run, one)));
  return all.length > 0 ? [all, signature()] : [];
}

/** A message that continues the run. */
function message(run) {
  const field = h('textarea', { rows: '2', 'aria-label': 'Message', placeholder: 'A message that continues the run' });
  const send = button('Continue', async () => {
    await post('/api/say', { id: run.id, text: field.value });
    field.value = '';
  });
  field.addEventListener('keydown', event => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send.click();
  });
  return h('div', { class: 'message-form actions' }, field, send);
}

/** A new run with the records of this one up to the end of a turn. */
function fork(run) {
  const last = run.head.turns;
  const turn = h('input', { type: 'number', id: 'fork-turn', min: '0', max: String(last), step: '1', value: String(run.head.can.fork_before ?? last) });
  const edited = h('input', { type: 'checkbox', id: 'fork-edited' });
  return h('div', { class: 'actions' }, h('label', { for: 'fork-turn' }, 'Continue in a new run after turn '), turn,
    h('label', { for: 'fork-edited' }, edited, ' by the file as it is now'),
    button('Fork', async () => {
      const made = await post('/api/fork', { id: run.id, turn: Number(turn.value), ...(edited.checked ? { file: run.head.file } : {}) });
      location.hash = runLink(made.id);
    }));
}

/** What the run allows now, the most likely first. */
export function actions(run) {
  const { can, turns, file } = run.head;
  const again = edited => async () => {
    const made = await post('/api/rerun', { id: run.id, ...can.retry, ...(edited ? { file } : {}) });
    location.hash = runLink(made.id);
  };
  const first = [
    can.cancel && button('Stop', () => post('/api/cancel', { id: run.id })),
    can.resume && run.head.state !== 'waiting' && button('Resume', () => post('/api/resume', { id: run.id }), { class: 'first' }),
    can.retry && button('Retry from the failure', again(false), { class: 'first', title: `Repeats ${can.retry.agent} and what depends on it in a new run; everything before it is kept.` }),
    can.retry && button('Retry with the file as it is now', again(true)),
  ];
  const hasFailed = Boolean(can.retry) || can.fork_before !== null;
  return [
    first.some(Boolean) && h('div', { class: 'actions' }, first),
    can.say && (hasFailed ? h('details', {}, h('summary', {}, 'Send a message'), message(run)) : message(run)),
    can.fork && turns > 0 && !can.cancel && h('details', {}, h('summary', {}, 'Fork'), fork(run)),
  ];
}
