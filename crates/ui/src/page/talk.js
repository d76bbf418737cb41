// The conversation, and the sums of the agents.

import { badge, clock, count, fill, h, money, number, runLink, table, tableRow, time, trouble, usage } from '/base.js';

const SOME = 100;

function entry(row, run) {
  if (row.kind === 'turn') return null;
  if (row.kind !== 'execution') {
    const who = { message: 'you', given: 'given', ended: 'end', waits: 'waited' }[row.kind] ?? row.kind;
    return h('article', { class: `entry ${row.kind}` }, h('h2', {}, who, ' ', h('small', {}, time(row.begun))), row.text && h('p', { class: 'text' }, row.text));
  }
  const live = run.live.get(`${row.agent} ${row.execution}`);
  const text = row.text || (live ? `${live.about} ${live.text}`.trim() : '');
  const link = runLink(run.id, 'at', row.turn, row.agent);
  return h('article', { class: `entry execution ${row.state}` },
    h('h2', {}, h('a', { href: link }, row.execution > 1 ? `${row.agent} #${row.execution}` : row.agent), ' ', row.state !== 'done' && badge(row.state), ' ', h('small', {}, `turn ${row.turn}`)),
    text && h('p', { class: 'text' }, text), row.is_cut && h('p', { class: 'quiet' }, h('a', { href: link }, 'The rest is in the execution.')));
}

export function showTalk(run, panel) {
  const earlier = h('button', { type: 'button', onclick: () => grow() }, 'Show earlier');
  const list = h('div', { class: 'talk', role: 'log', 'aria-label': 'Conversation', tabindex: '0' });
  fill(panel, list);
  const texts = new Map();
  const elements = new Map();
  let from = Math.max(0, run.head.rows - SOME);
  const input = run.head.input;

  /** What was said first: the input. */
  function opening() {
    if (from > 0) return earlier;
    return input ? h('article', { class: 'entry message' }, h('h2', {}, 'you'), h('p', { class: 'text' }, input)) : '';
  }
  const first = h('div');
  list.append(first);

  function put(row) {
    texts.set(row.at, row);
    const made = entry(row, run);
    const known = elements.get(row.at);
    if (!made) return;
    made.dataset.at = row.at;
    if (known) known.replaceWith(made);
    else {
      const next = [...elements.keys()].filter(at => at > row.at).sort((a, b) => a - b)[0];
      list.insertBefore(made, next === undefined ? null : elements.get(next));
    }
    elements.set(row.at, made);
  }

  async function load(begin, end) {
    for (let at = begin; at < end; at += 500) (await run.load(at, Math.min(at + 500, end), true)).forEach(put);
  }

  async function grow() {
    const before = from;
    from = Math.max(0, from - SOME);
    await load(from, before);
    fill(first, opening());
  }

  async function begin() {
    texts.clear();
    elements.forEach(element => element.remove());
    elements.clear();
    from = Math.max(0, run.head.rows - SOME);
    fill(first, opening());
    await load(from, run.head.rows);
    list.scrollTop = list.scrollHeight;
  }

  async function change(happened) {
    if (happened.begin) return begin();
    const isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 40;
    for (const row of happened.rows) {
      if (row.at < from) continue;
      if (row.is_cut) await load(row.at, row.at + 1);
      else put(row);
    }
    if (happened.live) {
      const row = [...texts.values()].reverse().find(one => one.agent === happened.live.agent && one.execution === happened.live.execution);
      if (row) put(row);
    }
    if (isAtEnd) list.scrollTop = list.scrollHeight;
  }
  begin();
  return run.listen(happened => change(happened).catch(error => trouble(error.message)));
}

const AGENT_HEAD = [['Agent'], ['Kind'], ['Executions', 'number'], ['Failed', 'number'], ['Requests', 'number'], ['Tokens in', 'number'], ['Tokens out', 'number'], ['Cost', 'number'],
  ['Time', 'number'], ['Now, or why it did not run']];

export function showAgents(run, panel) {
  const place = h('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': 'Agents and cost' });
  fill(panel, place);
  let last = '';

  function line(one) {
    const cost = money(one.usage.cost);
    const name = one.turn ? h('a', { href: runLink(run.id, 'at', one.turn, one.name) }, one.name) : one.name;
    return tableRow(AGENT_HEAD, h('th', { scope: 'row' }, name), h('td', {}, one.kind ?? ''),
      [one.executions, one.failed, one.usage.requests, one.usage.input_tokens, one.usage.output_tokens].map(value => h('td', { class: 'number' }, number(value))),
      h('td', { class: 'number' }, cost), h('td', { class: 'number' }, one.seconds === null ? '' : clock(one.seconds, ['runs', 'retries'].includes(one.activity))),
      h('td', {}, one.activity ? badge(one.activity) : one.idle ?? ''));
  }

  function draw() {
    const now = JSON.stringify([run.head.agents, run.head.warnings]);
    if (now === last) return;
    last = now;
    const { usage: used, executions, warnings } = run.head;
    const caption = h('caption', {}, `${count(executions, 'execution')}${used.requests ? `, ${count(used.requests, 'request')}: ${usage(used)}` : ', no model was asked'}`);
    fill(place, table('agents', caption, AGENT_HEAD, h('tbody', {}, run.head.agents.map(line))),
      warnings.length > 0 && [h('h2', {}, 'Warnings'), h('ul', {}, warnings.map(text => h('li', {}, text)))]);
  }
  draw();
  return run.listen(draw);
}
