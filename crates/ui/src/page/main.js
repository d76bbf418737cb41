// From the address to a view. The token stands in the address once; then a cookie has it.

import { fill, get, h, main, post, say, trouble, Refused } from '/base.js';
import { showEdit } from '/edit.js';
import { showBatch, showList } from '/list.js';
import { showRun } from '/run.js';
import { showStart } from '/start.js';

/** What the view at the moment does when another takes its place. */
let leave = () => {};
let shownKey = '';
let arrive = null;

/** Takes the token out of the address, and gives it to the server for a cookie. */
async function signIn() {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = location.hash.startsWith('#token=') ? given.get('token') : null;
  if (!token) return;
  const run = given.get('run');
  history.replaceState(null, '', run ? `/#/run/${encodeURIComponent(run)}` : '/#/');
  await post('/api/session', { token });
}

function parts() {
  const [place, ...rest] = location.hash.replace(/^#\/?/, '').split('/').filter(part => part).map(decodeURIComponent);
  return { place: place ?? '', rest };
}

function show() {
  if (location.hash === '#main') return;
  const { place, rest } = parts();
  const key = place === 'run' ? `run ${rest[0]}` : `${place} ${rest.join('/')}`;
  for (const link of document.querySelectorAll('nav[aria-label="Page"] a')) {
    const is = link.getAttribute('href') === (place === 'new' ? '#/new' : '#/') && !['run', 'edit'].includes(place);
    if (is) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (key === shownKey && arrive) {
    arrive(rest.slice(1));
    return;
  }
  leave();
  trouble('');
  shownKey = key;
  arrive = null;
  fill(main(), h('p', { class: 'quiet' }, 'Loading…'));
  const view = { run: showRun, batch: showBatch, new: showStart, edit: showEdit }[place] ?? showList;
  const made = view(rest);
  leave = made.leave ?? (() => {});
  arrive = made.arrive ?? null;
  say(document.title);
}

/** Without the token there is nothing to see. */
export function locked() {
  leave();
  leave = () => {};
  shownKey = '';
  document.title = 'ensemble';
  fill(main(), h('h1', {}, 'This page needs its token'),
    h('p', {}, 'Open the address that ', h('code', {}, 'ensemble ui'), ' has printed in the terminal. It contains the token; ',
      'a server that was started again has another one.'));
}

addEventListener('hashchange', () => {
  if (location.hash.startsWith('#token=')) start();
  else show();
});
addEventListener('locked', locked);
addEventListener('unhandledrejection', event => {
  if (event.reason instanceof Refused && event.reason.status === 401) locked();
  else trouble(event.reason?.message ?? 'something went wrong');
});

async function start() {
  try {
    await signIn();
    const about = await get('/api/about');
    document.getElementById('place').textContent = about.folder;
    show();
  } catch (error) {
    if (error instanceof Refused && error.status === 401) locked();
    else trouble(`the server does not answer: ${error.message}`);
  }
}

start();
