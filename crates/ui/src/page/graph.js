// The graph with what ran, now or after an earlier turn, and the replay with an edited file.

import { button, count, fill, h, post, runLink } from '/base.js';
import { Canvas } from '/canvas.js';

/** A document is asked for, because the page must not turn text into markup. */
function picture(parameters) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('GET', `/api/graph?${new URLSearchParams(parameters)}`);
    request.responseType = 'document';
    request.overrideMimeType('image/svg+xml');
    request.onload = () => (request.status === 200 ? resolve(request.responseXML.documentElement) : reject(new Error('The ensemble of this run cannot be read, so it has no graph.')));
    request.onerror = () => reject(new Error('the server does not answer'));
    request.send();
  });
}

export function showGraph(run, panel) {
  const canvas = new Canvas('Graph');
  const slider = h('input', { type: 'range', id: 'turn', min: '0', step: '1', oninput: () => wait() });
  const label = h('label', { for: 'turn' });
  const follows = h('input', { type: 'checkbox', id: 'follows', checked: true });
  const following = h('label', { for: 'follows' }, follows, ' Follow the run');
  const told = h('div', { role: 'status', class: 'told' });
  const compare = button('Replay with the file as it is now', async () => tell(await post('/api/replay', { id: run.id, file: run.head.file })));
  fill(panel, h('div', { class: 'past' }, label, slider, following, run.head.can.fork && compare), told, canvas.element);
  let timer = 0;
  let isGone = false;
  let isLast = true;
  let chosen = null;

  function turns() {
    const last = run.head.turns;
    slider.max = String(last);
    if (isLast) slider.value = String(last);
    following.hidden = !run.head.is_under_way;
    label.textContent = isLast ? `After turn ${last} (the last one)` : `After turn ${slider.value} of ${last}`;
  }

  function wait() {
    isLast = Number(slider.value) >= run.head.turns;
    turns();
    if (!timer) timer = setTimeout(draw, 100);
  }

  /** The first difference, and the graph before it. */
  function tell(replayed) {
    if (replayed.outcome !== 'diverged') {
      fill(told, `The same: ${count(replayed.compared, 'decision')}${replayed.outcome === 'cut' ? `, as far as the record goes (before turn ${replayed.turn})` : ''}.`);
      return;
    }
    fill(told, h('p', { class: 'failure' }, `The first difference is in turn ${replayed.turn}.`),
      h('ul', {}, h('li', {}, `recorded: ${replayed.recorded}`), h('li', {}, `decided now: ${replayed.decided}`), replayed.why.map(text => h('li', {}, text))));
    slider.value = String(replayed.turn - 1);
    wait();
  }

  async function draw() {
    timer = 0;
    turns();
    try {
      const drawn = await picture(isLast ? { id: run.id } : { id: run.id, turn: slider.value });
      if (isGone) return;
      const svg = document.importNode(drawn, true);
      svg.setAttribute('role', 'group');
      svg.querySelectorAll('g.agent').forEach((group, at) => open(group, run.head.agents[at]));
      const focused = document.activeElement?.closest?.('.graph g.agent')?.dataset.agent;
      canvas.show(svg);
      mark();
      if (focused) svg.querySelector(`g.agent[data-agent="${CSS.escape(focused)}"]`)?.focus();
      if (isLast && follows.checked) canvas.follow(svg.querySelector('g.agent.active, g.agent.waiting'));
    } catch (error) {
      canvas.tell(h('p', {}, error.message));
    }
  }

  /** An agent that ran leads to its latest execution. */
  function open(group, agent) {
    if (!agent?.turn) return;
    group.dataset.agent = agent.name;
    group.setAttribute('tabindex', '0');
    group.setAttribute('role', 'link');
    const go = () => { location.hash = runLink(run.id, 'at', agent.turn, agent.name); };
    group.addEventListener('click', go);
    group.addEventListener('keydown', event => event.key === 'Enter' && go());
  }
  /** Marks the agent whose execution is shown next to the graph. */
  function mark() {
    for (const group of canvas.place.querySelectorAll('g.agent[data-agent]')) {
      if (group.dataset.agent === chosen) group.setAttribute('aria-current', 'true');
      else group.removeAttribute('aria-current');
    }
  }
  draw();
  const stop = run.listen(happened => {
    if (happened.chosen !== undefined) {
      chosen = happened.chosen?.agent ?? null;
      mark();
    }
    const isNews = happened.begin || happened.rows.some(row => row.kind === 'turn' || row.kind === 'execution');
    if (isNews && !timer) timer = setTimeout(draw, 500);
  });
  return () => {
    isGone = true;
    canvas.close();
    clearTimeout(timer);
    stop();
  };
}
