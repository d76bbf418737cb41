// Visits the page as a person does, in a real browser, and prints what was seen as JSON.
import { browse, judged, seen, serve, watch } from './base.mjs';

let { server, link, port } = await serve(0);
const browser = await browse();
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
