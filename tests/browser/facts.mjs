// Reads the page as a person does who wants to know what happened, and prints what was seen as JSON. Elements are found by their roles and names.
import fs from 'node:fs';
import path from 'node:path';
import { browse, judged, project, seen, serve, watch } from './base.mjs';

const { server, link } = await serve(0);
const browser = await browse();
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  watch(page);
  await page.goto(link);
  const row = name => page.getByRole('table', { name: 'Runs of this project, the latest first' }).getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
  const open = async name => {
    await page.getByRole('link', { name: 'Overview' }).click();
    await row(name).first().getByRole('link').click();
    await page.getByRole('navigation', { name: 'Views of the run' }).waitFor();
  };
  const happened = page.getByRole('region', { name: 'What happened' });
  const next = page.getByRole('region', { name: 'What to do next' });

  // The overview: filters with counts, batches, ensembles.
  await row('shaped').first().waitFor();
  await page.getByRole('region', { name: 'Ensembles' }).waitFor();
  await judged(page, 'overview');
  await page.getByLabel('State').selectOption('agent_failed');
  seen.failed_runs = await page.getByRole('status').innerText();
  await page.getByLabel('State').selectOption('');
  await page.getByLabel('Ensemble', { exact: true }).selectOption('shaped');
  seen.shaped_runs = await page.getByRole('status').innerText();
  await page.getByLabel('Ensemble', { exact: true }).selectOption('');
  seen.batch = await page.getByRole('table', { name: 'Batches of this project, the latest first' }).getByRole('row').nth(1).innerText();
  await page.getByRole('link', { name: 'asked-rows' }).click();
  await page.getByRole('heading', { name: 'asked-rows batch' }).waitFor();
  await page.getByRole('table').getByRole('row').nth(2).waitFor();
  seen.batch_rows = await page.getByRole('table').getByRole('row').count();
  await judged(page, 'batch');

  // The declared result, once; and structured outputs.
  await open('shaped');
  await page.getByRole('heading', { name: 'Result' }).waitFor();
  seen.result = (await happened.innerText()).replaceAll(/\s+/g, ' ');
  await page.getByRole('option').filter({ hasText: 'fetch' }).first().click();
  const detail = page.getByRole('region', { name: 'Execution' });
  await detail.getByRole('heading', { name: 'Said' }).waitFor();
  seen.structured = (await detail.locator('dl.values').innerText()).replaceAll(/\s+/g, ' ');
  await judged(page, 'structured');

  // A failure, once; the first thing to do is to retry from there.
  await open('bad');
  await happened.waitFor();
  seen.failure = (await happened.innerText()).replaceAll(/\s+/g, ' ');
  seen.first = await next.getByRole('button').first().innerText();
  seen.message_is_hidden = !(await next.getByLabel('Message').isVisible());
  await judged(page, 'failed');
  await happened.getByRole('link', { name: 'parse' }).click();
  await detail.getByRole('heading', { name: 'Attempts' }).waitFor();
  seen.attempts = await detail.getByRole('listitem').filter({ hasText: 'attempt' }).evaluateAll(all => all.map(one => one.innerText.split(' ').slice(0, 3).join(' ')));
  await page.getByRole('link', { name: 'Agents and cost' }).click();
  const never = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: 'report' }) });
  await never.waitFor();
  seen.never = (await never.getByRole('cell').allInnerTexts()).at(-2);

  // The graph by keyboard: it is zoomed, and an agent shows what it said.
  await page.getByRole('link', { name: 'Graph' }).click();
  await page.locator('.graph svg').waitFor();
  const width = () => page.locator('.graph svg').evaluate(svg => svg.viewBox.baseVal.width);
  const whole = await width();
  await page.getByRole('region', { name: 'Graph' }).focus();
  await page.keyboard.press('+');
  seen.zoomed = (await width()) < whole;
  await page.keyboard.press('0');
  seen.fitted = (await width()) === whole;
  await page.locator('.graph g.agent[data-agent="parse"]').focus();
  await page.keyboard.press('Enter');
  await detail.getByRole('heading', { name: 'parse' }).waitFor();
  await judged(page, 'graph-failed');

  // It is retried with a mended script.
  fs.writeFileSync(path.join(project, 'ensembles/parse.rhai'), '#{ columns: ["price"] }');
  await next.getByRole('button', { name: 'Retry from the failure' }).click();
  await page.waitForFunction(old => location.hash !== old, new URL(page.url()).hash);
  await page.getByText('forked from').waitFor({ state: 'attached' });
  seen.retried = await happened.getByRole('heading').innerText().catch(() => 'failed again');

  // The form tells at each field what is wrong with it.
  await page.getByRole('link', { name: 'New run' }).click();
  await page.getByRole('link', { name: 'Start asked' }).click();
  await page.getByLabel(/^rounds/).fill('9');
  await page.getByRole('button', { name: 'Start' }).click();
  const topic = page.getByLabel(/^topic/);
  await page.waitForFunction(() => document.querySelector('[aria-invalid="true"]'));
  const told = async field => field.evaluate(element => element.getAttribute('aria-describedby').split(' ').map(id => document.getElementById(id).innerText).join(' '));
  seen.field_errors = [await told(topic), await told(page.getByLabel(/^rounds/))];
  seen.focused = await topic.evaluate(element => document.activeElement === element);
  await judged(page, 'form-errors');

  // A question is answered with one click; meanwhile the agent at work is shown at work.
  await page.getByRole('link', { name: 'New run' }).click();
  await page.getByRole('link', { name: 'Start gate' }).click();
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('heading', { name: 'editor asks' }).waitFor();
  seen.waiting = await page.getByRole('heading', { level: 1 }).innerText();
  seen.asking_row = await page.locator('.row.execution').filter({ hasText: 'editor' }).innerText();
  await page.getByRole('link', { name: 'Graph' }).click();
  await page.locator('.graph g.agent.waiting').waitFor();
  seen.asking_node = await page.locator('.graph g.agent.waiting .fate').textContent();
  const clock = page.locator('.sums [data-zero]').first();
  const before = await clock.innerText();
  await page.waitForFunction(text => document.querySelector('.sums [data-zero]').innerText !== text, before);
  await page.getByRole('button', { name: 'yes' }).click();
  await page.getByRole('heading', { name: 'Output of printer' }).waitFor();
  seen.ticking = await page.locator('.sums [data-zero]').count();

  // Narrow, and dark.
  const dark = await browser.newContext({ viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
  const small = await dark.newPage();
  watch(small);
  await small.goto(link);
  await small.getByRole('region', { name: 'Ensembles' }).waitFor();
  await judged(small, 'narrow-overview');
  seen.wide = [await small.evaluate(() => document.documentElement.scrollWidth > innerWidth)];
  await small.goto(page.url());
  await small.locator('.graph svg').waitFor();
  await judged(small, 'narrow-graph');
  seen.wide.push(await small.evaluate(() => document.documentElement.scrollWidth > innerWidth));
} catch (error) {
  seen.failed = error.message.slice(0, 900);
} finally {
  await browser.close();
  server.kill('SIGKILL');
}
console.log(JSON.stringify(seen));
