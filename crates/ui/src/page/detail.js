// One execution: why it ran, what it read, what it said, and the messages as its model received them.

import { badge, block, button, clock, count, fill, get, h, number, post, runLink, seconds, shown, time, usage } from '/base.js';

function labelled(label, ...content) {
  return [h('h3', {}, label), ...content];
}

function dependency(one) {
  const word = one.fired ? 'fired' : 'did not fire';
  return h('li', {}, badge(one.fired ? 'done' : 'ready', word), ` ${one.from}`, one.feedback && ' (feedback)',
    one.condition && [' if ', h('code', {}, one.condition.trim())]);
}

function call(one) {
  const result = one.error !== undefined ? block(one.error, 'failure') : one.result !== undefined ? block(one.result) : h('p', { class: 'quiet' }, 'not ended');
  return h('details', {}, h('summary', {}, one.name, ' ', one.error !== undefined && badge('failed', 'error'), ' ', h('span', { class: 'quiet' }, seconds(one.duration))),
    h('h4', {}, 'Arguments'), block(one.arguments), h('h4', {}, 'Result'), result);
}

/** A value: a text as it is, a map as its keys with their values. */
export function value(one) {
  if (typeof one !== 'object' || one === null || Array.isArray(one)) return block(one);
  return keys(Object.entries(one));
}

function keys(entries) {
  return entries.length > 0 && h('dl', { class: 'values' }, entries.map(([key, inner]) => [h('dt', {}, key), h('dd', {}, block(inner))]));
}

/** What the agent said: its response, and its other keys. */
function output(said) {
  if (!said) return [];
  return labelled('Said', said.response !== null && block(said.response), keys(said.keys));
}

/** What the model was asked first. */
function sent(asked) {
  if (!asked) return [];
  return labelled('Sent', asked.system && h('details', {}, h('summary', {}, 'Role'), block(asked.system)), block(asked.prompt),
    (asked.attachments ?? []).length > 0 && h('ul', {}, asked.attachments.map(file)));
}

function answered({ answer, choices = [], unattended, at }, author) {
  const by = `${author}${unattended ? ', because no person could be asked' : ''}`;
  return h('p', {}, `answered “${answer}” by ${by} · ${time(at)}`, choices.length > 0 && h('span', { class: 'quiet' }, ` · choices: ${choices.join(', ')}`));
}

/** An answer of a person whom a tool asked, or of a nested run. */
function innerAnswer(one) {
  return h('div', {}, h('h4', {}, one.address), block(one.prompt), answered(one, [one.source, one.user && `(${one.user})`].filter(word => word).join(' ')));
}

function attempt(one) {
  const again = one.pause > 0 ? `again after ${seconds(one.pause)}` : 'again at once';
  const failure = one.failure ? `: ${one.failure.error}; ${again}` : '';
  return h('li', {}, `attempt ${one.attempt} `, badge({ succeeded: 'done', failed: 'failed', interrupted: 'lost' }[one.state] ?? 'ready', one.state), ` ${time(one.started_at)}${failure}`);
}

function file(one) {
  return h('li', {}, `${one.name} (${one.mime_type}, ${number(one.size)} bytes)`);
}

/** A part of an execution, as far as it is recorded. */
function part(one) {
  const isFailed = one.error !== undefined || one.failure !== undefined;
  return h('details', {}, h('summary', {}, one.key, ' ', badge(isFailed ? 'failed' : 'done'), ' ', h('span', { class: 'quiet' }, seconds(one.execution_time))), block(one));
}

function message(one) {
  return h('div', { class: `message ${one.role}` }, h('h5', {}, one.role), one.content && block(one.content),
    (one.attachments ?? []).length > 0 && h('ul', {}, one.attachments.map(file)), (one.tool_calls ?? []).map(call));
}

function exchange(one) {
  const inside = (one.inside ?? []).length ? `, as a tool in call ${one.inside.join(' › ')}` : '';
  const part = one.part ? `, part ${one.part}` : '';
  const remembered = one.remembered.length > 0 && h('details', {}, h('summary', {}, `${count(one.remembered.length, 'message')} of earlier executions, sent before these`), one.remembered.map(message));
  const iterations = one.iterations.map((iteration, at) => h('div', { class: 'iteration' },
    h('h4', {}, `Request ${at + 1} `, h('span', { class: 'quiet' }, [iteration.metadata?.model, iteration.metadata?.stop_reason].filter(word => word).join(' · '))),
    iteration.metadata?.system_prompt && message({ role: 'system', content: iteration.metadata.system_prompt }),
    iteration.messages.map(message), iteration.tool_calls.map(call)));
  return h('section', {}, h('h4', {}, `Attempt ${one.attempt}${part}${inside} `, badge({ failed: 'failed', call_failed: 'failed', open: 'ready' }[one.end] ?? 'done', one.end)), remembered, iterations);
}

function messages(run, turn, agent) {
  const place = h('div');
  const details = h('details', {}, h('summary', {}, 'Messages, as the model received them'), place);
  details.addEventListener('toggle', async () => {
    if (!details.open) return;
    fill(place, h('p', { class: 'quiet' }, 'Loading…'));
    const exchanges = await get('/api/messages', { id: run.id, turn, agent });
    fill(place, exchanges.length ? exchanges.map(exchange) : h('p', { class: 'quiet' }, 'Nothing was sent to a model.'));
  });
  return details;
}

/** The kind of a failure that the agent itself reported says nothing. */
function failureHeading(kind) {
  return kind === 'reported' ? 'Failed' : `Failed (${kind.replaceAll('_', ' ')})`;
}

/** What can be done from here: an execution that has ended is repeated, and a turn that has ended is continued. */
function again(run, turn, agent, hasEnded) {
  const turns = [turn, turn - 1].filter(one => one > 0 && one <= run.head.turns);
  if (!run.head.can.fork || !hasEnded && turns.length === 0) return [];
  const edited = h('input', { type: 'checkbox', id: 'edited' });
  const body = more => ({ id: run.id, ...more, ...(edited.checked ? { file: run.head.file } : {}) });
  const go = async (path, more) => {
    const made = await post(path, body(more));
    location.hash = runLink(made.id);
  };
  return [h('h3', {}, 'In a new run'), h('p', {}, edited, h('label', { for: 'edited' }, ' by the file as it is now')),
    h('div', { class: 'actions' }, hasEnded && button('Repeat this execution', () => go('/api/rerun', { turn, agent })),
      turns.map(one => button(`Continue after turn ${one}`, () => go('/api/fork', { turn: one }))))];
}

export function showDetail(run, side, turn, agent, view) {
  const live = h('pre', { class: 'block live', hidden: true });
  const heading = h('h2', { tabindex: '-1' }, agent);
  const content = h('div');
  let last = '';
  fill(side, h('div', { class: 'side-head' }, heading, h('a', { class: 'close', href: runLink(run.id, view), 'aria-label': 'Close the execution' }, '×')), live, content);
  heading.focus({ preventScroll: true });

  function draw({ execution: one, dependencies, kind, inside, state, elapsed, said, answered_by: by, has_messages: hasMessages }) {
    const reads = Object.entries(one.reads).map(([name, at]) => `${name} #${at}`).join(', ');
    heading.textContent = one.execution > 1 ? `${agent} #${one.execution}` : agent;
    fill(content,
      h('p', {}, badge(state), ` turn ${turn} · ${[kind, one.output !== null || one.failure ? seconds(one.seconds) : '', usage(one.usage), one.stop_reason].filter(word => word).join(' · ')}`,
        typeof elapsed === 'number' && [' · ', clock(elapsed)]),
      inside.length > 0 && h('p', {}, 'Conversations inside: ', inside.map(name => [h('a', { href: runLink(`${run.id}/sub/${name}`) }, name), ' '])),
      sent(one.asked),
      one.failure && labelled(failureHeading(one.failure.kind), block(one.failure.error, 'failure')),
      (one.questions ?? []).map(question => labelled(`Asks (${question.address})`, block(question.prompt))),
      one.answer && labelled('Asked', block(one.answer.prompt), answered(one.answer, by)),
      output(said),
      (one.answers ?? []).length > 0 && labelled('Answers inside', one.answers.map(innerAnswer)),
      one.tool_calls.length > 0 && labelled('Tool calls', one.tool_calls.map(call)),
      hasMessages && messages(run, turn, agent),
      labelled('Why it ran', dependencies.length ? h('ul', { class: 'plain' }, dependencies.map(dependency)) : h('p', { class: 'quiet' }, 'It depends on no agent.'),
        one.request && h('p', {}, `asked by ${one.request.from}: `, h('code', {}, shown(one.request.parameters))),
        one.handles.length > 0 && h('p', {}, `handles the failure of ${one.handles.join(', ')}`), reads && h('p', {}, `read ${reads}`)),
      labelled('Attempts', h('ul', { class: 'plain' }, one.attempts.map(attempt))),
      one.parts.length > 0 && labelled('Parts', one.parts.map(part)),
      (one.permissions ?? []).length > 0 && labelled('Permissions', block(one.permissions)),
      one.stderr && labelled('Standard error', block(one.stderr)),
      (one.warnings ?? []).length > 0 && labelled('Warnings', h('ul', {}, one.warnings.map(text => h('li', {}, text)))),
      again(run, turn, agent, one.output !== null || Boolean(one.failure)));
  }

  async function load() {
    try {
      const detail = await get('/api/execution', { id: run.id, turn, agent });
      const now = JSON.stringify({ ...detail, elapsed: 0 });
      if (now !== last) draw(detail);
      last = now;
      return detail.execution.execution;
    } catch (error) {
      fill(content, h('p', {}, error.message));
      return 0;
    }
  }

  let execution = 0;
  let isLoading = false;
  async function refresh() {
    if (isLoading) return;
    isLoading = true;
    execution = await load();
    isLoading = false;
    stream();
  }

  function stream() {
    const now = run.live.get(`${agent} ${execution}`);
    const text = now ? `${now.about}${now.about && now.text ? '\n' : ''}${now.text}` : '';
    live.hidden = !text;
    if (live.textContent !== text) live.textContent = text;
  }
  refresh();
  return run.listen(change => {
    const isOurs = row => row.kind === 'execution' && row.turn === turn && row.agent === agent;
    if (change.begin || change.rows.some(isOurs)) refresh();
    stream();
  });
}
