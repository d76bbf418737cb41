// What can be done with a run: answer, permit, stop, resume, continue.

import { block, button, h, post } from '/base.js';

/** An answer to a question; with choices, one of them. */
function question(run, asked) {
  const { address, digest, refused, shown } = asked;
  const send = answer => post('/api/answer', { id: run.id, address, digest, answer });
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
  const decide = decision => () => post('/api/permit', { id: run.id, address, digest, decision });
  return h('section', { class: 'ask' }, h('h2', {}, `${shown.address} wants to call ${shown.tool}`), h('h3', {}, 'Arguments'), block(shown.arguments),
    h('div', { class: 'actions' }, button('Allow once', decide('once')), button('Allow in this run', decide('always')), button('Deny', decide('denied'))));
}

/** All that waits for a person. */
export function waiting(run) {
  const { waiting: open, questions } = run.head;
  const here = [...open.questions, ...open.permissions].sort((one, other) => one.position - other.position);
  return [...here, ...questions].map(one => (one.permission ? permission(run, one) : question(run, one)));
}

/** Buttons for what the run allows now. */
export function actions(run) {
  const { can } = run.head;
  const made = [];
  if (can.cancel) made.push(button('Stop', () => post('/api/cancel', { id: run.id })));
  if (can.resume) made.push(button('Resume', () => post('/api/resume', { id: run.id })));
  if (can.say) {
    const field = h('textarea', { rows: '1', 'aria-label': 'Message', placeholder: 'A message that continues the run' });
    const send = button('Continue', async () => {
      await post('/api/say', { id: run.id, text: field.value });
      field.value = '';
    });
    field.addEventListener('keydown', event => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send.click();
    });
    made.push(h('div', { class: 'message-form' }, field, send));
  }
  return made;
}
