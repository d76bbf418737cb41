// What the visits of the page have in common: the server, the browser, and axe. Arguments of a visit: the folder of the packages, the program, the
// folder of the project, and optionally a folder for pictures.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';
import zlib from 'node:zlib';

export const [, , modules, program, project, pictures] = process.argv;
const require = createRequire(path.join(modules, 'x.js'));
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core'), 'utf8');
const TOKEN = 'a-token-of-the-tests';
export const seen = { errors: [], axe: [] };

/** The browser is packed; it is unpacked once, beside its package. Several tests may do so at once: the first one that is done wins. */
function unpacked() {
  const packed = path.join(modules, '@sparticuz/chromium/bin');
  const folder = path.join(modules, '../unpacked');
  const isWhole = () => fs.existsSync(path.join(folder, 'whole'));
  if (isWhole()) return folder;
  const own = `${folder}.${process.pid}`;
  fs.mkdirSync(own, { recursive: true });
  const opened = name => zlib.brotliDecompressSync(fs.readFileSync(path.join(packed, name)));
  fs.writeFileSync(path.join(own, 'chromium'), opened('chromium.br'), { mode: 0o755 });
  for (const name of ['al2023', 'fonts', 'swiftshader']) execFileSync('tar', ['x', '-C', own], { input: opened(`${name}.tar.br`) });
  fs.writeFileSync(path.join(own, 'fonts.conf'), `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>${folder}/fonts</dir><cachedir>${folder}/fonts-cache</cachedir></fontconfig>`);
  fs.writeFileSync(path.join(own, 'whole'), '');
  try {
    fs.renameSync(own, folder);
  } catch (error) {
    fs.rmSync(own, { recursive: true, force: true });
    if (!isWhole()) throw error;
  }
  return folder;
}

export async function serve(port) {
  const server = spawn(program, ['ui', '--port', String(port)], { cwd: project, env: { ...process.env, ENSEMBLE_UI_TOKEN: TOKEN }, stdio: ['ignore', 'pipe', 'ignore'] });
  const [link] = await new Promise(resolve => readline.createInterface(server.stdout).once('line', line => resolve([line])));
  return { server, link, port: Number(new URL(link).port) };
}

export async function judged(page, name) {
  await page.evaluate(`${axe};0`);
  const { violations } = await page.evaluate(() => axe.run(document));
  seen.axe.push(...violations.map(one => `${name}: ${one.id}: ${one.nodes[0].html.slice(0, 150)}`));
  if (pictures) await page.screenshot({ path: path.join(pictures, `${name}.png`) });
}

export function watch(page) {
  page.on('pageerror', error => seen.errors.push(error.message));
  page.on('console', message => message.type() === 'error' && !/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|Failed to load resource/.test(message.text()) && seen.errors.push(message.text()));
}

/** Starts the browser. */
export async function browse() {
  const folder = unpacked();
  const env = { ...process.env, LD_LIBRARY_PATH: path.join(folder, 'lib'), FONTCONFIG_PATH: folder };
  return chromium.launch({ executablePath: path.join(folder, 'chromium'), args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'], env });
}
