// The overview: runs, batches and ensembles, with filters.

import { badge, count, fill, get, h, main, money, number, runBadge, runLink, table, tableRow, time, trouble, wideRow } from '/base.js';
import { ensembleCards } from '/start.js';

const EVERY = 2000;
const FEW = 25;

/** A cell for what a run was given. */
const given = run => h('td', { class: 'said' }, run.input);

function runRow(run) {
  if (run.error) return wideRow(RUN_HEAD, `${run.id}: ${run.error}`);
  const notes = [...(run.failed ? [`${run.failed} failed`] : []), ...run.failed_work];
  const failed = notes.length ? ` (${notes.join(', ')})` : '';
  return tableRow(RUN_HEAD,
    h('th', { scope: 'row' }, h('a', { href: runLink(run.id) }, run.ensemble), h('small', {}, run.id)),
    h('td', {}, runBadge(run)),
    h('td', { class: 'when' }, time(run.begun)), h('td', {}, String(run.turns)), h('td', {}, `${run.executions}${failed}`), given(run));
}

/** The rows of a batch by their standing, failures first: the key of the number, and the colour. */
const STANDINGS = { failed: 'failed', limited: 'failed', waiting: 'asks', left: 'stopped', completed: 'good' };

function standings(batch) {
  return Object.entries(STANDINGS).filter(([name]) => batch[name] > 0).map(([name, colour]) => [badge(colour, `${number(batch[name])} ${name}`), ' ']);
}

function batchRow(batch) {
  return tableRow(BATCH_HEAD,
    h('th', { scope: 'row' }, h('a', { href: `#/batch/${encodeURIComponent(batch.batch)}` }, batch.batch), h('small', {}, batch.ensemble)),
    h('td', { class: 'number' }, number(batch.rows)), h('td', {}, batch.state === 'running' && [badge('running'), ' '], standings(batch)),
    h('td', { class: 'when' }, time(batch.started_at)), h('td', { class: 'number' }, money(batch.cost)));
}

/** A table in a region that scrolls, with a caption for screen readers. */
function region(caption, name, head, body) {
  return h('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': caption }, table(name, h('caption', { class: 'unseen' }, caption), head, body));
}

const RUN_HEAD = [['Ensemble'], ['State'], ['Begun'], ['Turns'], ['Executions'], ['Input']];
const BATCH_HEAD = [['Batch'], ['Rows', 'number'], ['States'], ['Begun'], ['Cost', 'number']];

/** A choice of one value, with the number of runs that have each of them. */
class Choice {
  constructor(id, label, changed) {
    this.select = h('select', { id, onchange: changed });
    this.element = h('span', {}, h('label', { for: id }, `${label} `), this.select);
    this.drawn = '';
  }

  get value() {
    return this.select.value;
  }

  offer(values) {
    const counts = new Map();
    for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
    if (this.value && !counts.has(this.value)) counts.set(this.value, 0);
    const options = [...counts].sort(([one], [other]) => (one < other ? -1 : 1));
    const now = JSON.stringify(options);
    if (now === this.drawn) return;
    this.drawn = now;
    const chosen = this.value;
    fill(this.select, h('option', { value: '' }, `all (${number(values.length)})`), options.map(([value, sum]) => h('option', { value }, `${value.replaceAll('_', ' ')} (${number(sum)})`)));
    this.select.value = chosen;
  }
}

/** Runs in a table, with filters. */
class RunTable {
  constructor(caption, empty) {
    this.runs = [];
    this.most = FEW;
    this.drawn = '';
    this.empty = empty;
    const redraw = () => this.draw();
    this.filter = h('input', { type: 'search', id: 'filter', placeholder: 'ensemble, input, id or state', oninput: redraw });
    this.state = new Choice('state', 'State', redraw);
    this.ensemble = new Choice('ensemble', 'Ensemble', redraw);
    this.body = h('tbody');
    this.about = h('p', { class: 'quiet', role: 'status' });
    this.element = [
      h('div', { class: 'filters' }, h('span', {}, h('label', { for: 'filter' }, 'Show only '), this.filter), this.state.element, this.ensemble.element),
      this.about, region(caption, 'runs', RUN_HEAD, this.body)];
  }

  show(runs) {
    this.runs = runs;
    this.draw();
  }

  /** Does the ensemble fit to the filters? For lists next to this one. */
  fits(ensemble, text) {
    const words = this.filter.value.toLowerCase();
    return (!this.ensemble.value || ensemble === this.ensemble.value) && text.toLowerCase().includes(words);
  }

  draw() {
    const { runs } = this;
    this.state.offer(runs.filter(run => run.state).map(run => run.state));
    this.ensemble.offer(runs.filter(run => run.ensemble).map(run => run.ensemble));
    const chosen = runs.filter(run => (!this.state.value || run.state === this.state.value)
      && this.fits(run.ensemble, `${run.ensemble} ${run.input} ${run.id} ${run.state}`));
    const now = JSON.stringify([chosen.slice(0, this.most), chosen.length, runs.length]);
    if (now === this.drawn) return;
    this.drawn = now;
    fill(this.body, chosen.slice(0, this.most).map(runRow), chosen.length > this.most && wideRow(RUN_HEAD,
      h('button', { type: 'button', onclick: () => { this.most *= 4; this.draw(); } }, `Show more of ${number(chosen.length)}`)));
    this.about.textContent = runs.length === 0 ? this.empty
      : chosen.length === runs.length ? count(runs.length, 'run') : `${number(chosen.length)} of ${count(runs.length, 'run')}`;
    this.changed?.();
  }
}

/** Asks again and again, as long as somebody looks. */
function repeat(load) {
  const ask = async () => {
    try {
      await load();
      trouble('');
    } catch (error) {
      if (error.status === 401) dispatchEvent(new Event('locked'));
      else if (error.status) trouble(error.message);
      else trouble(`the server does not answer (${error.message}); it is asked again`);
    }
  };
  ask();
  const timer = setInterval(() => document.hidden || ask(), EVERY);
  return { leave: () => clearInterval(timer) };
}

export function showList() {
  document.title = 'Overview · ensemble';
  const runTable = new RunTable('Runs of this project, the latest first', 'No run is recorded here. “New run” starts one.');
  const jump = h('p', { class: 'actions' });
  const batchBody = h('tbody');
  const batchPart = h('section', { hidden: true, 'aria-labelledby': 'batches' }, h('h2', { id: 'batches', tabindex: '-1' }, 'Batches'),
    region('Batches of this project, the latest first', 'batches', BATCH_HEAD, batchBody));
  const cards = h('div');
  const ensemblePart = h('section', { hidden: true, 'aria-labelledby': 'ensembles' }, h('h2', { id: 'ensembles', tabindex: '-1' }, 'Ensembles'), cards);
  fill(main(), h('h1', {}, 'Overview'), jump, h('section', { 'aria-labelledby': 'runs' }, h('h2', { id: 'runs', tabindex: '-1' }, 'Runs'), runTable.element), batchPart, ensemblePart);
  let batches = [];
  let ensembles = [];

  const link = (sum, word, id) => sum > 0 && h('button', { type: 'button', class: 'link', onclick: () => {
    const heading = document.getElementById(id);
    heading.scrollIntoView();
    heading.focus({ preventScroll: true });
  } }, sum === 1 || !word.endsWith('ch') ? count(sum, word) : `${number(sum)} ${word}es`);

  runTable.changed = () => {
    const shownBatches = batches.filter(batch => runTable.fits(batch.ensemble, `${batch.batch} ${batch.ensemble} ${batch.data}`));
    fill(batchBody, shownBatches.length ? shownBatches.map(batchRow) : wideRow(BATCH_HEAD, 'No batch fits to the filters.'));
    batchPart.hidden = batches.length === 0;
    const shownEnsembles = ensembles.filter(one => runTable.fits(one.name, `${one.name} ${one.description ?? ''} ${one.file}`));
    fill(cards, ensembleCards(shownEnsembles, 'h3'));
    ensemblePart.hidden = ensembles.length === 0;
    fill(jump, link(runTable.runs.length, 'run', 'runs'), link(batches.length, 'batch', 'batches'), link(ensembles.length, 'ensemble', 'ensembles'));
  };
  let last = '';
  get('/api/ensembles').then(found => {
    ensembles = found;
    runTable.changed();
  }).catch(error => trouble(error.message));
  return repeat(async () => {
    const [listed, found] = await Promise.all([get('/api/runs'), get('/api/batches')]);
    batches = found.batches;
    runTable.show(listed.runs);
    const now = JSON.stringify(batches);
    if (now !== last) runTable.changed();
    last = now;
  });
}

const ROW_HEAD = [['Row', 'number'], ['Standing'], ['Cause, or what it asks'], ['Turns', 'number'], ['Cost', 'number'], ['Run']];

/** A row of a batch, with its run. A run whose row has not begun does not exist yet. */
function rowOf(row) {
  const about = row.cause ?? (row.questions ?? []).map(one => `${one.address ?? one.agent ?? ''}: ${one.prompt ?? ''}`).join(' · ');
  return tableRow(ROW_HEAD, h('td', { class: 'number' }, number(row.row)), h('td', {}, badge(STANDINGS[row.standing], row.standing)),
    h('td', {}, about), h('td', { class: 'number' }, row.turns === undefined ? '' : number(row.turns)), h('td', { class: 'number' }, money(row.cost)),
    h('th', { scope: 'row' }, row.standing === 'left' ? row.run : h('a', { href: runLink(row.run) }, row.run)));
}

/** A batch: the number of its rows by their standing, and its rows. */
export function showBatch([name]) {
  document.title = `${name} · batch`;
  const facts = h('p');
  const body = h('tbody');
  const about = h('p', { class: 'quiet', role: 'status' });
  let batch = { runs: [] };
  let most = FEW;
  let drawn = '';
  const redraw = () => draw();
  const filter = h('input', { type: 'search', id: 'filter', placeholder: 'run, cause or question', oninput: redraw });
  const standing = new Choice('standing', 'Standing', redraw);
  fill(main(), h('h1', {}, name, ' ', h('small', {}, 'batch')), facts,
    h('div', { class: 'filters' }, h('span', {}, h('label', { for: 'filter' }, 'Show only '), filter), standing.element), about, region(`Rows of the batch ${name}`, 'rows', ROW_HEAD, body));

  function draw() {
    standing.offer(batch.runs.map(row => row.standing));
    const words = filter.value.toLowerCase();
    const chosen = batch.runs.filter(row => (!standing.value || row.standing === standing.value) && JSON.stringify(row).toLowerCase().includes(words));
    const now = JSON.stringify([chosen.slice(0, most), chosen.length, batch.rows, batch.state]);
    if (now === drawn) return;
    drawn = now;
    fill(facts, `${count(batch.rows, 'row')} of ${batch.data} with ${batch.ensemble}: `, batch.state === 'running' && [badge('running'), ' '], standings(batch), batch.cost ? ` cost ${money(batch.cost)}` : '');
    fill(body, chosen.slice(0, most).map(rowOf), chosen.length > most && wideRow(ROW_HEAD,
      h('button', { type: 'button', onclick: () => { most *= 4; draw(); } }, `Show more of ${number(chosen.length)}`)));
    about.textContent = chosen.length === batch.runs.length ? count(chosen.length, 'row') : `${number(chosen.length)} of ${count(batch.runs.length, 'row')}`;
  }
  return repeat(async () => {
    batch = await get('/api/batch', { name });
    draw();
  });
}
