// The designer: the text of an ensemble beside its graph. The server computes findings, graphs and edits; the text is here.

import { button, count, fill, get, h, main, post, say, trouble } from '/base.js';
import { Editor } from '/editor.js';
import { Canvas } from '/canvas.js';
import { adding, fileSettings, findings, selected } from '/panel.js';

/** How long nothing is typed before the server is asked. */
const REST = 150;
/** Texts that were left unsaved, by file. */
const drafts = new Map();
/** Texts that gave way to the file on disk, by file, until they are put back or dropped. */
const kept = new Map();

/** A document is asked for, because the page must not turn text into markup. */
function picture(body) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', '/api/design/graph');
    request.setRequestHeader('content-type', 'application/json');
    request.responseType = 'document';
    request.overrideMimeType('image/svg+xml');
    request.onload = () => resolve(request.status === 200 ? request.responseXML.documentElement : null);
    request.onerror = () => reject(new Error('the server does not answer'));
    request.send(JSON.stringify(body));
  });
}

function unsavedAnywhere(event) {
  if (drafts.size + kept.size > 0) event.preventDefault();
}
addEventListener('beforeunload', unsavedAnywhere);

/** What scripts need for a text after others were written: an undo after saving takes names back in them, too. */
function since(wanted, written, digests) {
  const of = file => wanted.find(script => script.file === file)?.names ?? [];
  const moved = written.filter(script => JSON.stringify(script.names) !== JSON.stringify(of(script.file)));
  return [...wanted.filter(script => !written.some(one => one.file === script.file)), ...moved.map(({ file, names }) => ({
    file, digest: digests[file], names: [...names.toReversed().map(one => ({ ...one, old: one.new, new: one.old })), ...of(file)],
  }))];
}

class Designer {
  /** `tests`: the test files of the ensemble. One of them can be the file; it has no graph. */
  constructor(name, file, tests) {
    const hasGraph = !tests.includes(file);
    const title = hasGraph ? name : file.split('/').at(-1);
    Object.assign(this, { name, file, hasGraph, title, saved: '', digest: '', keys: null, found: { text: null, findings: [], agents: [], values: null }, chosen: null, picks: null, outside: null, mine: null, timer: 0, asked: 0, isSaving: false, isNews: false, isGone: false });
    this.editor = new Editor({ label: `Text of ${title}`, describedby: 'keys', changed: () => this.changed(), save: () => this.save.click() });
    this.save = button('Save', () => this.write(), { class: 'first' });
    this.undo = h('button', { type: 'button', onclick: () => this.editor.step(true) }, 'Undo');
    this.redo = h('button', { type: 'button', onclick: () => this.editor.step(false) }, 'Redo');
    this.state = h('span', { class: 'badge' });
    this.notice = h('div', { class: 'notice' });
    this.sum = h('p', { class: 'sum', role: 'status' });
    this.list = h('ol', { class: 'findings plain' });
    this.canvas = new Canvas('Graph');
    this.graph = this.canvas.place;
    this.picking = h('p', { class: 'picking', role: 'status' });
    this.panel = h('div', { class: 'design-panel' });
    const own = `#/edit/${encodeURIComponent(name)}`;
    const others = [
      !hasGraph && h('a', { href: own }, name),
      tests.filter(test => test !== file).map(test => h('a', { href: `${own}/${encodeURIComponent(test)}` }, test.split('/').at(-1))),
      hasGraph && h('a', { href: `#/new/${encodeURIComponent(name)}` }, 'New run'),
    ];
    this.element = [
      h('div', { class: 'edit-head' }, h('h1', {}, `${title} `, this.state), h('div', { class: 'actions' }, this.save, this.undo, this.redo, others.flat())),
      this.notice,
      h('div', { class: hasGraph ? 'design' : 'design alone' },
        h('section', { class: 'writing', 'aria-label': 'Text' }, this.editor.element,
          h('p', { id: 'keys', class: 'quiet keys' }, 'Tab indents; Escape and then Tab leaves the text. Ctrl+S saves, Ctrl+Z undoes.'),
          h('div', { class: 'found', tabindex: '0', role: 'region', 'aria-label': 'Findings' }, this.sum, this.list)),
        hasGraph && h('section', { class: 'drawing', 'aria-label': 'Graph and agents' }, this.picking, this.canvas.element, this.panel)),
    ];
    this.source = null;
    this.seen = () => (document.hidden ? this.source?.close() : this.follow());
    document.addEventListener('visibilitychange', this.seen);
  }

  get isUnsaved() {
    return this.editor.text !== this.saved;
  }

  async open() {
    this.keys = await get('/api/design/keys');
    const { text, digest } = await get('/api/design/file', { file: this.file });
    Object.assign(this, { saved: text, digest });
    const draft = drafts.get(this.file);
    this.editor.begin(text, []);
    fill(main(), this.element);
    if (draft) {
      this.editor.replace(draft.text, draft.scripts);
      if (draft.digest !== digest) this.tell('The file was changed on disk while your unsaved text was put aside here.', { text, digest });
    }
    if (kept.has(this.file)) {
      this.mine = kept.get(this.file);
      this.keep('This text of yours was not saved, because the file was changed on disk.');
    }
    this.follow();
    await this.examine();
  }

  leave() {
    clearTimeout(this.timer);
    this.asked += 1;
    this.source?.close();
    this.editor.close();
    this.canvas.close();
    document.removeEventListener('visibilitychange', this.seen);
    this.isLeft = true;
  }

  changed() {
    const { isUnsaved } = this;
    if (isUnsaved) drafts.set(this.file, { text: this.editor.text, digest: this.digest, scripts: this.editor.extra });
    else drafts.delete(this.file);
    document.title = `${isUnsaved ? '• ' : ''}${this.title} · edit`;
    // While a text of the user gave way to the file, nothing of the user is saved.
    const isSaved = !isUnsaved && this.mine === null;
    this.state.className = `badge ${isSaved ? 'good' : 'stopped'}`;
    this.state.textContent = isUnsaved ? 'unsaved' : isSaved ? 'saved' : 'your text is not saved';
    this.undo.disabled = this.editor.done.length === 0;
    this.redo.disabled = this.editor.undone.length === 0;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.examine(), REST);
  }

  /** Asks what is found in the text, and for its graph. */
  async examine() {
    clearTimeout(this.timer);
    this.asked += 1;
    const own = this.asked;
    const { text } = this.editor;
    const body = { file: this.file, text };
    try {
      const found = await post('/api/design/examine', body);
      if (own !== this.asked) return;
      this.found = { text, ...found };
      this.tellFindings();
      if (!this.hasGraph) return;
      const drawn = await picture(body);
      if (own !== this.asked) return;
      this.draw(drawn);
      this.tellAgents();
    } catch (error) {
      if (own === this.asked) this.failed(error);
    }
  }

  failed(error) {
    if (error.status === 401) dispatchEvent(new Event('locked'));
    else trouble(error.message);
  }

  tellFindings() {
    const { findings: found } = this.found;
    const sums = ['error', 'warning', 'hint'].map(kind => [found.filter(one => one.severity === kind).length, kind]).filter(([sum]) => sum > 0);
    const told = sums.length ? sums.map(([sum, kind]) => count(sum, kind)).join(', ') : 'Nothing found';
    if (this.sum.textContent !== told) this.sum.textContent = told;
    this.editor.mark(found.filter(one => one.at).map(one => ({ start: one.at.start, end: one.at.end, severity: one.severity })));
    findings(this.list, found, at => this.editor.go(at.start, at.end), fix => {
      if (this.found.text !== this.editor.text) throw new Error('The text has changed; wait a moment.');
      this.editor.splice(fix.edits);
      say(`Done: ${fix.title}`);
      return this.examine();
    });
  }

  draw(drawn) {
    this.graph.classList.toggle('old', !drawn);
    if (!drawn) {
      this.graph.setAttribute('aria-label', 'Graph of the last text without errors');
      if (!this.canvas.svg) this.canvas.tell(this.agentsWithoutGraph());
      return;
    }
    this.graph.setAttribute('aria-label', 'Graph');
    const focused = document.activeElement?.closest?.('.graph g.agent')?.dataset.agent;
    const svg = document.importNode(drawn, true);
    svg.setAttribute('role', 'group');
    svg.querySelectorAll('g.agent').forEach((group, at) => {
      const agent = this.found.agents[at];
      if (!agent) return;
      group.dataset.agent = agent.name;
      group.setAttribute('tabindex', '0');
      group.setAttribute('role', 'button');
      group.addEventListener('click', () => this.take(agent.name));
      group.addEventListener('keydown', event => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        this.take(agent.name);
      });
    });
    this.canvas.show(svg);
    if (focused) this.node(focused)?.focus();
    this.point();
  }

  /** The agents of a text that never had a graph. */
  agentsWithoutGraph() {
    const choose = ({ name }) => h('button', { type: 'button', onclick: () => this.take(name) }, name);
    return h('div', { class: 'agents-without-graph' }, h('p', { class: 'quiet' }, 'The text has errors, so it has no graph.'), h('div', { class: 'actions' }, this.found.agents.map(choose)));
  }

  node(name) {
    return this.graph.querySelector(`g.agent[data-agent="${CSS.escape(name)}"]`);
  }

  point() {
    for (const group of this.graph.querySelectorAll('g.agent')) group.setAttribute('aria-pressed', String(group.dataset.agent === this.chosen));
    this.picking.textContent = this.picks ? `Choose the agent to which ${this.picks} shall listen. Escape stops.` : '';
    this.graph.classList.toggle('picks', Boolean(this.picks));
  }

  /** An agent in the graph was chosen. */
  async take(name) {
    const agent = this.picks;
    if (agent) {
      this.picks = null;
      this.point();
      try {
        await this.change({ do: 'connect', agent, to: name });
      } catch (error) {
        trouble(error.message);
      }
      return;
    }
    this.chosen = this.chosen === name ? null : name;
    this.tellAgents();
    this.panel.querySelector('.chosen h2')?.focus();
  }

  tellAgents() {
    const { agents } = this.found;
    const agent = agents.find(one => one.name === this.chosen);
    if (!agent) this.chosen = null;
    this.point();
    const shown = JSON.stringify([this.found.values, agents.map(one => [one.name, one.kind]), agent && { ...agent, at: 0, dependencies: agent.dependencies.map(one => ({ ...one, at: 0 })) }]);
    if (shown === this.shown) return;
    this.shown = shown;
    const change = (command, next) => this.change(command, next);
    const isOpen = this.panel.querySelector('.file-settings')?.open;
    fill(this.panel, agent && selected(agent, agents, {
      change,
      keys: this.keys,
      show: () => {
        const now = this.found.agents.find(one => one.name === agent.name);
        this.editor.go(now.at.start, now.at.end);
      },
      pick: () => {
        this.picks = agent.name;
        this.point();
        this.graph.querySelector('g.agent')?.focus();
      },
      close: () => {
        this.picks = null;
        this.take(agent.name);
        this.node(agent.name)?.focus();
      },
    }), this.addingForm(agents, change), fileSettings(this.found.values, this.keys, change));
    this.panel.querySelector('.file-settings').open = isOpen ?? false;
  }

  /** The form for a new agent. A person may be filling it in, so it stays as long as there are the same agents. */
  addingForm(agents, change) {
    const names = JSON.stringify(agents.map(one => one.name));
    if (this.addingNames !== names) Object.assign(this, { addingNames: names, addingElement: adding(agents, change) });
    return this.addingElement;
  }

  /** Has the server compute an edit, and applies it. `next` is the agent that is chosen then. */
  async change(command, next = this.chosen) {
    trouble('');
    const { text } = this.editor;
    const { stays } = document.activeElement?.dataset ?? {};
    const done = await post('/api/design/edit', { file: this.file, text, edit: command });
    if (this.editor.text !== text) throw new Error('The text was changed meanwhile; try again.');
    this.editor.splice(done.edits, this.scripts(command, done));
    this.chosen = next;
    this.shown = '';
    say(`Done: ${done.title}`);
    if (done.warning) trouble(done.warning);
    await this.examine();
    const same = stays ? this.panel.querySelector(`[data-stays="${CSS.escape(stays)}"]`) : null;
    for (let fold = same?.closest('details'); fold; fold = fold.parentElement.closest('details')) fold.open = true;
    (same || this.panel.querySelector('.chosen h2') || this.panel.querySelector('summary'))?.focus();
  }

  /** The names to be changed in scripts when the text is saved. */
  scripts(command, done) {
    if (command.do !== 'rename') return this.editor.extra;
    const subject = command.input === undefined ? 'agent' : 'input';
    const [old, now] = [command[subject], command.name];
    const known = this.editor.extra.map(script => {
      const last = script.names.findLast(one => one.subject === subject && one.new === old);
      return last ? { ...script, names: [...script.names, { ...last, old, new: now }] } : script;
    });
    for (const script of done.scripts) {
      const at = known.findIndex(one => one.file === script.file);
      const isKnown = one => one.subject === subject && one.old === old && one.new === now;
      if (at < 0) known.push(script);
      else if (!known[at].names.some(isKnown)) known[at] = { ...known[at], names: [...known[at].names, ...script.names] };
    }
    return known;
  }

  async write() {
    trouble('');
    const { text, extra: written } = this.editor;
    this.isSaving = true;
    try {
      const { digest, scripts: digests } = await post('/api/design/save', { file: this.file, text, digest: this.digest, scripts: written });
      Object.assign(this, { digest, saved: text, outside: null });
      this.editor.extra = since(this.editor.extra, written, digests);
      for (const change of [...this.editor.done, ...this.editor.undone]) Object.assign(change, { extra: since(change.extra, written, digests), then: since(change.then, written, digests) });
      this.settle();
      const scripts = written.map(script => script.file).join(', ');
      say(scripts ? `Saved, with ${scripts}` : 'Saved');
    } catch (error) {
      if (error.status === 409) await this.yield(error.message);
      else throw error;
    } finally {
      this.isSaving = false;
      if (this.isNews) this.look();
    }
  }

  /** The file on disk wins; the text of the page is kept beside it. */
  async yield(why) {
    const disk = await get('/api/design/file', { file: this.file });
    if (disk.text === this.editor.text && disk.digest !== this.digest) {
      Object.assign(this, { saved: disk.text, digest: disk.digest });
      this.changed();
      return;
    }
    // A script that has changed keeps the names in it as they are.
    this.mine = this.editor.text;
    Object.assign(this, { saved: disk.text, digest: disk.digest, outside: null });
    this.editor.replace(disk.text, []);
    this.keep(`Not saved: ${why}. The text is that of the file now; yours is kept here.`);
  }

  keep(why) {
    kept.set(this.file, this.mine);
    this.changed();
    const field = h('textarea', { rows: '6', readonly: true, 'aria-label': 'Your text' });
    field.value = this.mine;
    fill(this.notice, h('section', { class: 'ask', 'aria-label': 'Your text' }, h('p', { role: 'alert' }, why), field, h('div', { class: 'actions' },
      button('Copy', async () => {
        field.select();
        await navigator.clipboard.writeText(this.mine);
        say('Copied');
      }),
      button('Put it back', () => {
        this.editor.replace(this.mine, []);
        this.settle();
      }),
      button('Drop it', () => this.settle()))));
  }

  settle() {
    this.mine = null;
    kept.delete(this.file);
    fill(this.notice);
    this.changed();
  }

  /** Tells of a file that was changed elsewhere while there is an unsaved text. */
  tell(why, disk) {
    this.outside = disk;
    fill(this.notice, h('section', { class: 'ask' }, h('p', { role: 'alert' }, why, ' If you save, the file on disk stays and your text is kept beside it.'), h('div', { class: 'actions' },
      button('Show the file, and keep my text beside it', () => this.yield('the file was changed on disk')))));
  }

  follow() {
    if (this.isLeft || (this.source && this.source.readyState !== EventSource.CLOSED)) return;
    this.source = new EventSource(`/api/design/events?${new URLSearchParams({ file: this.file })}`);
    this.source.addEventListener('file', event => {
      if (this.isGone || JSON.parse(event.data).digest !== this.digest) this.look();
    });
    this.source.addEventListener('gone', () => this.look());
    this.source.onerror = () => {
      if (this.source.readyState === EventSource.CLOSED && !document.hidden) setTimeout(() => this.follow(), 2000);
    };
  }

  /** Reads the file after an event. The event may be older than what was saved here since then, so its text is not taken. */
  async look() {
    this.isNews = true;
    if (this.isSaving || this.isLeft) return;
    this.isNews = false;
    const { digest } = this;
    let disk = null;
    try {
      disk = await get('/api/design/file', { file: this.file });
    } catch (error) {
      if (!error.status || error.status === 401) return;
    }
    if (this.isLeft) return;
    if (this.isSaving || this.digest !== digest) this.look();
    else this.onDisk(disk);
  }

  /** The file as it is on disk; `null`: it is not there. */
  onDisk(disk) {
    if (!disk) {
      this.isGone = true;
      trouble(`${this.file} does not exist any more, cannot be read, or is neither an ensemble nor a test file. Your text is still here.`);
      return;
    }
    if (this.isGone) trouble('');
    this.isGone = false;
    if (disk.digest === this.digest) return;
    if (this.isUnsaved && disk.text !== this.editor.text) {
      this.tell('The file was changed on disk by another program, and your text is not saved.', disk);
      return;
    }
    const isOther = disk.text !== this.editor.text;
    Object.assign(this, { saved: disk.text, digest: disk.digest });
    if (isOther) this.editor.replace(disk.text, []);
    else this.changed();
    say('The file was changed on disk; this is its text now.');
  }
}

export function showEdit([name, file]) {
  document.title = `${file ?? name} · edit`;
  let designer = null;
  let isLeft = false;
  const stop = event => {
    if (event.key !== 'Escape' || !designer?.picks) return;
    designer.picks = null;
    designer.point();
  };
  addEventListener('keydown', stop);
  (async () => {
    try {
      const ensembles = await get('/api/ensembles');
      const ensemble = ensembles.find(one => one.name === name);
      if (isLeft) return;
      if (!ensemble) {
        fill(main(), h('h1', {}, name), h('p', {}, 'There is no ensemble of this name.'));
        return;
      }
      if (file && !ensemble.tests.includes(file)) {
        fill(main(), h('h1', {}, file), h('p', {}, `There is no such test file of ${name}.`));
        return;
      }
      designer = new Designer(name, file ?? ensemble.file, ensemble.tests);
      await designer.open();
    } catch (error) {
      if (error.status === 401) dispatchEvent(new Event('locked'));
      else trouble(error.message);
    }
  })();
  return {
    leave: () => {
      isLeft = true;
      removeEventListener('keydown', stop);
      designer?.leave();
    },
  };
}
