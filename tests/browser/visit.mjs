// Visits the page as a person does, in a real browser, and prints what was seen as JSON.
// Arguments: the folder of the packages, the program, the folder of the project, and optionally a folder for pictures.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';
import zlib from 'node:zlib';

const [, , modules, program, project, pictures] = process.argv;
const require = createRequire(path.join(modules, 'x.js'));
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core'), 'utf8');
const TOKEN = 'a-token-of-the-tests';
const seen = { errors: [], axe: [] };

/** The browser is packed; it is unpacked once, beside its package. */
function unpacked() {
  const packed = path.join(modules, '@sparticuz/chromium/bin');
  const folder = path.join(modules, '../unpacked');
  if (fs.existsSync(path.join(folder, 'whole'))) return folder;
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  const opened = name => zlib.brotliDecompressSync(fs.readFileSync(path.join(packed, name)));
  fs.writeFileSync(path.join(folder, 'chromium'), opened('chromium.br'), { mode: 0o755 });
  for (const name of ['al2023', 'fonts', 'swiftshader']) execFileSync('tar', ['x', '-C', folder], { input: opened(`${name}.tar.br`) });
  fs.writeFileSync(path.join(folder, 'fonts.conf'), `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>${folder}/fonts</dir><cachedir>${folder}/fonts-cache</cachedir></fontconfig>`);
  fs.writeFileSync(path.join(folder, 'whole'), '');
  return folder;
}

async function serve(port) {
  const server = spawn(program, ['ui', '--port', String(port)], { cwd: project, env: { ...process.env, ENSEMBLE_UI_TOKEN: TOKEN }, stdio: ['ignore', 'pipe', 'ignore'] });
  const [link] = await new Promise(resolve => readline.createInterface(server.stdout).once('line', line => resolve([line])));
  return { server, link, port: Number(new URL(link).port) };
}

async function judged(page, name) {
  await page.evaluate(`${axe};0`);
  const { violations } = await page.evaluate(() => axe.run(document));
  seen.axe.push(...violations.map(one => `${name}: ${one.id}: ${one.nodes[0].html.slice(0, 150)}`));
  if (pictures) await page.screenshot({ path: path.join(pictures, `${name}.png`) });
}

function watch(page) {
  page.on('pageerror', error => seen.errors.push(error.message));
  page.on('console', message => message.type() === 'error' && !/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|Failed to load resource/.test(message.text()) && seen.errors.push(message.text()));
}

const folder = unpacked();
let { server, link, port } = await serve(0);
const env = { ...process.env, LD_LIBRARY_PATH: path.join(folder, 'lib'), FONTCONFIG_PATH: folder };
const browser = await chromium.launch({ executablePath: path.join(folder, 'chromium'), args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'], env });
try {
  const context = await browser.newContext({ viewport: { width: 1200, height: 760 } });
  const stranger = await context.newPage();
  await stranger.goto(new URL('/', link).href);
  seen.stranger = await stranger.innerText('h1');
  await stranger.close();

  const page = await context.newPage();
  watch(page);
  await page.goto(link);
  await page.waitForSelector('table.runs tbody tr');
  seen.address = page.url().replace(String(port), 'PORT');
  seen.listed = await page.locator('table.runs tbody th a').allInnerTexts();
  await judged(page, 'list');
  await page.fill('#filter', 'markup');
  seen.filtered = await page.locator('table.runs tbody tr').count();

  // What a model says is text.
  await page.click('table.runs tbody th a');
  await page.waitForSelector('.row.execution');
  seen.markup = { row: await page.innerText('.row.execution .said'), images: await page.locator('main img, main b:not(.row b)').count() };
  await page.focus('.scroller');
  for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
  await page.waitForSelector('.side h3');
  await page.click('summary:has-text("Messages, as")');
  await page.waitForSelector('.iteration');
  seen.prompt = await page.innerText('.message.user pre');
  await judged(page, 'execution');
  const deep = page.url();
  for (const view of ['Conversation', 'Graph', 'Agents and cost']) {
    await page.click(`.tabs a:has-text("${view}")`);
    await page.waitForSelector({ Conversation: '.entry', Graph: '.graph svg', 'Agents and cost': 'table' }[view]);
    await judged(page, view.split(' ')[0].toLowerCase());
  }
  // The graph of an earlier turn.
  await page.click('.tabs a:has-text("Graph")');
  await page.waitForSelector('.graph svg');
  await page.focus('#turn');
  await page.keyboard.press('Home');
  await page.waitForFunction(() => !document.querySelector('.graph').textContent.includes('ran once'));
  seen.earlier = await page.innerText('.past label');
  await page.click('button:has-text("Replay with")');
  await page.waitForSelector('.told:not(:empty)');
  seen.replayed = await page.innerText('.told');
  await page.goto(deep);
  await page.waitForSelector('.side h2');
  seen.deep = await page.innerText('.side h2');

  // Two tabs, and a reload in the middle.
  await page.click('nav a:has-text("New run")');
  await page.click('.cards a:has-text("gate")');
  await page.fill('#task', 'the moon');
  await judged(page, 'form');
  await page.click('button:has-text("Start")');
  await page.waitForSelector('.ask');
  await judged(page, 'question');
  const second = await context.newPage();
  watch(second);
  await second.goto(page.url());
  await second.waitForSelector('.ask');
  await page.reload();
  await page.waitForSelector('.ask');
  await second.focus('.ask button');
  await second.keyboard.press('Enter');
  await page.waitForSelector('h1 .badge.good');
  seen.answered = await page.innerText('h1');

  // A message continues it, and the server is killed while it asks again.
  await page.fill('.message-form textarea', 'once more');
  await page.click('.message-form button');
  await page.waitForSelector('.ask');
  server.kill('SIGKILL');
  await page.waitForSelector('#trouble:not([hidden])', { timeout: 20000 });
  seen.lost = await page.innerText('#trouble');
  ({ server } = await serve(port));
  await page.waitForSelector('.actions button:has-text("Resume")', { timeout: 30000 });
  seen.interrupted = await page.innerText('h1');
  await page.click('.actions button:has-text("Resume")');
  await page.waitForSelector('.ask');
  await page.click('.actions button:has-text("Stop")');
  await page.waitForSelector('h1 .badge.stopped');
  seen.stopped = await page.innerText('h1');
  await second.close();

  // A long run.
  await page.goto(new URL('/#/', link).href);
  await page.fill('#filter', 'long');
  await page.waitForSelector('table.runs tbody th a:has-text("long")');
  const begun = Date.now();
  await page.click('table.runs tbody th a');
  await page.waitForSelector('.row.execution');
  seen.opened = Date.now() - begun;
  seen.rows = await page.locator('.row').count();
  await page.focus('.scroller');
  await page.keyboard.press('End');
  await page.waitForSelector('.row.ended');
  seen.last = await page.innerText('.row.ended .said');

  // Dark, and narrow.
  const dark = await browser.newContext({ viewport: { width: 380, height: 700 }, colorScheme: 'dark' });
  const small = await dark.newPage();
  watch(small);
  await small.goto(link);
  await small.waitForSelector('table.runs tbody tr');
  await judged(small, 'narrow-list');
  seen.ground = await small.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await small.goto(deep);
  await small.waitForSelector('.side h3');
  await judged(small, 'narrow-execution');
  seen.wide = await small.evaluate(() => document.documentElement.scrollWidth > innerWidth);
} catch (error) {
  seen.failed = error.message.slice(0, 600);
} finally {
  await browser.close();
  server.kill('SIGKILL');
}
console.log(JSON.stringify(seen));
