// The timeline. Only the rows that are to be seen are in the page, however many there are.

import { badge, clock, fill, h, runLink, seconds, usage } from '/base.js';

const HEIGHT = 34;
const CHUNK = 100;
const AROUND = 12;

/** What a row says, as elements. */
function content(row, live) {
  if (!row) return [h('span', { class: 'quiet' }, '…')];
  if (row.kind === 'turn') {
    const idle = row.idle.map(one => `${one.agent} did not run: ${one.reason}`).join(' · ');
    return [h('b', {}, `Turn ${row.turn}`), row.seconds !== null && h('span', { class: 'quiet' }, seconds(row.seconds)), h('span', { class: 'said quiet', title: idle }, idle)];
  }
  if (row.kind !== 'execution') return [badge(row.kind), h('span', { class: 'said' }, row.text ?? '')];
  const again = row.execution > 1 ? ` #${row.execution}` : '';
  const by = row.asked_by ? `asked by ${row.asked_by}` : row.by.length ? `after ${row.by.join(', ')}` : '';
  const text = row.text || (live ? `${live.about} ${live.text.slice(-200)}` : '');
  const more = [row.tries > 1 ? `${row.tries} attempts` : '', usage(row.usage)].filter(one => one).join(' · ');
  const time = typeof row.elapsed === 'number' ? clock(row.elapsed + (performance.now() - row.received) / 1000) : seconds(row.seconds);
  return [badge(row.state), h('span', { class: 'agent' }, row.agent + again), by && h('span', { class: 'quiet by' }, by),
    h('span', { class: 'said' }, text.replaceAll(/\s+/g, ' ')),
    more && h('span', { class: 'quiet sums' }, more),
    time && h('span', { class: 'quiet time' }, time)];
}

/** Can rows still be added? */
function isGoingOn(run) {
  return ['running', 'waiting'].includes(run.head.state);
}

export function showRows(run, panel) {
  const space = h('div', { class: 'space' });
  const scroller = h('div', { class: 'scroller', tabindex: '0', role: 'listbox', 'aria-label': 'Timeline' }, space);
  fill(panel, scroller);
  const shown = new Map();
  const asked = new Set();
  let active = -1;
  let isAtEnd = isGoingOn(run);
  let chosen = null;
  let frame = 0;

  const total = () => run.head.rows;

  async function load(chunk) {
    if (asked.has(chunk)) return;
    asked.add(chunk);
    try {
      await run.load(chunk * CHUNK, Math.min((chunk + 1) * CHUNK, total()));
    } finally {
      asked.delete(chunk);
    }
    draw();
  }

  function element(at) {
    const made = h('div', { class: 'row', role: 'option', id: `row-${at}`, 'aria-posinset': String(at + 1) });
    made.style.top = `${at * HEIGHT}px`;
    made.addEventListener('click', () => choose(at));
    return made;
  }

  function draw() {
    frame = 0;
    const first = Math.max(0, Math.floor(scroller.scrollTop / HEIGHT) - AROUND);
    const last = Math.min(total(), Math.ceil((scroller.scrollTop + scroller.clientHeight) / HEIGHT) + AROUND);
    space.style.height = `${total() * HEIGHT}px`;
    for (const [at, known] of shown) {
      if (at < first || at >= last) {
        known.element.remove();
        shown.delete(at);
      }
    }
    for (let at = first; at < last; at += 1) {
      const row = run.rows.get(at);
      if (!row) load(Math.floor(at / CHUNK));
      const live = row?.kind === 'execution' && run.live.get(`${row.agent} ${row.execution}`);
      const isChosen = chosen && row?.kind === 'execution' && row.turn === chosen.turn && row.agent === chosen.agent;
      const now = JSON.stringify([row, live, isChosen, at === active]);
      let known = shown.get(at);
      if (!known) {
        known = { element: element(at), now: '' };
        shown.set(at, known);
        space.append(known.element);
      }
      if (known.now === now) continue;
      known.now = now;
      known.element.className = `row ${row?.kind ?? ''}${at === active ? ' active' : ''}`;
      known.element.setAttribute('aria-selected', String(Boolean(isChosen)));
      known.element.setAttribute('aria-setsize', String(total()));
      fill(known.element, content(row, live));
    }
    if (shown.has(active)) scroller.setAttribute('aria-activedescendant', `row-${active}`);
    else scroller.removeAttribute('aria-activedescendant');
  }

  function later() {
    if (!frame) frame = requestAnimationFrame(draw);
  }

  function choose(at) {
    active = at;
    const row = run.rows.get(at);
    if (row?.kind === 'execution') location.hash = runLink(run.id, 'at', row.turn, row.agent);
    later();
  }

  function move(to) {
    active = Math.max(0, Math.min(total() - 1, to));
    const top = active * HEIGHT;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    if (top + HEIGHT > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + HEIGHT - scroller.clientHeight;
    draw();
  }

  const page = () => Math.max(1, Math.floor(scroller.clientHeight / HEIGHT) - 1);
  const keys = { ArrowDown: () => active + 1, ArrowUp: () => active - 1, PageDown: () => active + page(), PageUp: () => active - page(), Home: () => 0, End: () => total() - 1 };
  scroller.addEventListener('keydown', event => {
    if (event.key in keys) move(keys[event.key]());
    else if (event.key === 'Enter' && active >= 0) choose(active);
    else return;
    event.preventDefault();
  });
  scroller.addEventListener('scroll', () => {
    isAtEnd = scroller.scrollTop + scroller.clientHeight >= total() * HEIGHT - HEIGHT;
    later();
  });

  function follow() {
    space.style.height = `${total() * HEIGHT}px`;
    if (isAtEnd && isGoingOn(run)) scroller.scrollTop = total() * HEIGHT;
    later();
  }
  const resized = new ResizeObserver(later);
  resized.observe(scroller);
  const stop = run.listen(change => {
    if (change.chosen !== undefined) chosen = change.chosen;
    follow();
  });
  follow();
  return () => {
    stop();
    resized.disconnect();
    cancelAnimationFrame(frame);
  };
}
