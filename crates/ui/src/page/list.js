// The list of runs.

import { count, fill, get, h, main, runBadge, runLink, time, trouble } from '/base.js';

const EVERY = 2000;

export function showList() {
  document.title = 'Runs · ensemble';
  const filter = h('input', { type: 'search', id: 'filter', placeholder: 'ensemble, input, id or state', oninput: () => draw() });
  const body = h('tbody');
  const about = h('p', { class: 'quiet', role: 'status' });
  const head = ['Ensemble', 'State', 'Begun', 'Turns', 'Executions', 'Input'];
  const table = h('table', { class: 'runs' },
    h('caption', { class: 'unseen' }, 'Runs of this project, the latest first'),
    h('thead', {}, h('tr', {}, head.map(name => h('th', { scope: 'col' }, name)))), body);
  fill(main(), h('h1', {}, 'Runs'), h('p', {}, h('label', { for: 'filter' }, 'Show only '), filter), about,
    h('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': 'Runs' }, table));
  let runs = [];
  let drawn = '';
  let most = 200;

  function row(run) {
    if (run.error) return h('tr', {}, h('td', { colspan: '6' }, `${run.id}: ${run.error}`));
    const notes = [...(run.failed ? [`${run.failed} failed`] : []), ...run.failed_work];
    const failed = notes.length ? ` (${notes.join(', ')})` : '';
    return h('tr', {},
      h('th', { scope: 'row' }, h('a', { href: runLink(run.id) }, run.ensemble), h('small', {}, run.id)),
      h('td', {}, runBadge(run)),
      h('td', { class: 'when' }, time(run.begun)), h('td', {}, String(run.turns)), h('td', {}, `${run.executions}${failed}`),
      h('td', { class: 'said' }, run.input));
  }

  function draw() {
    const words = filter.value.toLowerCase();
    const fits = run => `${run.ensemble} ${run.input} ${run.id} ${run.state}`.toLowerCase().includes(words);
    const chosen = runs.filter(fits);
    const now = JSON.stringify([chosen.slice(0, most), chosen.length, runs.length]);
    if (now === drawn) return;
    drawn = now;
    fill(body, chosen.slice(0, most).map(row), chosen.length > most && h('tr', {}, h('td', { colspan: '6' },
      h('button', { type: 'button', onclick: () => { most *= 2; draw(); } }, `Show more of ${chosen.length}`))));
    about.textContent = runs.length === 0 ? 'No run is recorded here. “New run” starts one.'
      : chosen.length === runs.length ? count(runs.length, 'run') : `${chosen.length} of ${count(runs.length, 'run')}`;
  }

  async function load() {
    try {
      runs = (await get('/api/runs')).runs;
      trouble('');
      draw();
    } catch (error) {
      if (error.status === 401) dispatchEvent(new Event('locked'));
      else trouble(`the server does not answer (${error.message}); it is asked again`);
    }
  }
  load();
  const timer = setInterval(() => document.hidden || load(), EVERY);
  return { leave: () => clearInterval(timer) };
}
