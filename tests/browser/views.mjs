// Uses the views of a run with the mouse, with the keyboard alone, and in narrow, light and dark windows, and prints what was seen as JSON.
import { browse, judged, seen, serve, watch } from './base.mjs';

const { server, link } = await serve(0);
const browser = await browse();
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  watch(page);
  const box = () => page.locator('.graph svg').evaluate(svg => { const { x, y, width, height } = svg.viewBox.baseVal; return { x, y, width, height }; });
  const start = async name => {
    await page.getByRole('link', { name: 'New run' }).click();
    await page.getByRole('link', { name: `Start ${name}` }).click();
    await page.getByRole('button', { name: 'Start' }).click();
    await page.getByRole('navigation', { name: 'Views of the run' }).waitFor();
  };
  const asks = name => page.getByRole('heading', { name: `${name} asks` }).waitFor();

  // The graph of a live run: the wheel zooms, dragging moves, and the agent at work is followed.
  await page.goto(link);
  await start('steps');
  await asks('first');
  await page.getByRole('link', { name: 'Graph' }).click();
  await page.locator('.graph g.agent.waiting').waitFor();
  const whole = await box();
  const place = await page.locator('.graph').boundingBox();
  const middle = { x: place.x + place.width / 2, y: place.y + place.height / 2 };
  await page.mouse.move(middle.x, middle.y);
  await page.mouse.wheel(0, -700);
  await page.waitForFunction(width => document.querySelector('.graph svg').viewBox.baseVal.width < width, whole.width);
  const zoomed = await box();
  seen.wheel = zoomed.width < whole.width / 2;
  await page.mouse.down();
  await page.mouse.move(middle.x + 60, middle.y + 40, { steps: 4 });
  await page.mouse.up();
  const dragged = await box();
  seen.drag = dragged.x < zoomed.x && dragged.y < zoomed.y && dragged.width === zoomed.width;
  seen.opened_by_drag = page.url().includes('/at/');
  const isInside = name => page.locator(`.graph g.agent[data-agent="${name}"]`).evaluate(group => {
    const view = group.ownerSVGElement.viewBox.baseVal;
    const own = group.getBBox();
    const [x, y] = [own.x + own.width / 2, own.y + own.height / 2];
    return view.x < x && x < view.x + view.width && view.y < y && y < view.y + view.height;
  });
  await page.getByLabel('Your name in the record').fill('Ada');
  await page.getByRole('button', { name: 'go on' }).click();
  await asks('third');
  await page.locator('.graph g.agent.waiting[data-agent="third"]').waitFor();
  seen.followed = [await isInside('third'), await isInside('first')];
  await page.getByLabel('Follow the run').uncheck();
  seen.kept_name = await page.getByLabel('Your name in the record').inputValue();
  const before = await box();
  await page.getByRole('button', { name: 'go on' }).click();
  await asks('fifth');
  await page.locator('.graph g.agent.waiting[data-agent="fifth"]').waitFor();
  const after = await box();
  seen.stayed = before.width === after.width && before.y === after.y;
  await page.getByRole('region', { name: 'Graph' }).focus();
  await page.keyboard.press('ArrowRight');
  seen.moved_by_key = (await box()).x > after.x;
  await page.getByRole('button', { name: 'Fit the whole graph' }).click();
  seen.fitted = (await box()).width > 2 * after.width;
  // Who answered is told with the execution.
  await page.locator('.graph g.agent[data-agent="first"]').click();
  await page.getByRole('heading', { name: 'Asked' }).waitFor();
  seen.answered = await page.getByText(/^answered/).innerText();

  // The keyboard alone: from the beginning of the page to the answer, to the timeline, to an execution.
  await page.goto(page.url().replace(/\/at\/.*$/, '/rows'));
  await asks('fifth');
  const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent);
  const tabTo = async name => {
    for (let steps = 0; steps < 60; steps += 1) {
      await page.keyboard.press('Tab');
      if ((await focused()) === name) return steps + 1;
    }
    throw new Error(`Tab does not lead to ${name}`);
  };
  await page.evaluate(() => document.activeElement.blur());
  await tabTo('Skip to the content');
  await page.keyboard.press('Enter');
  await tabTo('go on');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Output of last' }).waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await tabTo('Timeline');
  while (!(await page.evaluate(() => document.activeElement.matches('.scroller')))) await tabTo('Timeline');
  for (const key of ['Home', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
  await page.getByRole('region', { name: 'Execution' }).getByRole('heading', { name: 'first' }).waitFor();
  seen.execution_by_key = await page.evaluate(() => document.activeElement.textContent);
  const done = page.url().replace(/\/at\/.*$/, '');

  // A question inside of a run is asked on both pages; the inner page leads to the outer one.
  await start('outer');
  await asks('inner.gate');
  seen.shared = await page.getByRole('button', { name: 'yes' }).count();
  await page.goto(`${page.url().replace(/\/rows$/, '')}%2Fsub%2Finner-1-1`);
  await asks('inner.gate');
  seen.inside = await page.getByText('Inside of').count();
  await judged(page, 'inner');
  await page.getByRole('button', { name: 'yes' }).click();
  await page.getByRole('heading', { name: 'Output of gate' }).waitFor();
  await page.getByText('Inside of').getByRole('link').click();
  await page.getByRole('heading', { name: 'Output of inner' }).waitFor();

  // Parts, standard error, and a link to what is inside.
  await page.getByRole('link', { name: 'Overview' }).click();
  await page.getByRole('row').filter({ has: page.getByRole('link', { name: 'many', exact: true }) }).getByRole('link').click();
  const detail = page.getByRole('region', { name: 'Execution' });
  await page.locator('.row.execution .agent:text-is("each")').click();
  await detail.getByRole('heading', { name: 'Parts' }).waitFor();
  seen.parts = await detail.locator('details summary').allInnerTexts();
  await page.locator('.row.execution .agent:text-is("noisy")').click();
  await detail.getByRole('heading', { name: 'Standard error' }).waitFor();
  seen.stderr = await detail.locator('pre').last().innerText();
  await judged(page, 'parts');

  // An agent at work, a run that goes on.
  await start('slow');
  await page.locator('.row.execution .badge.runs').waitFor();
  seen.turn = (await page.locator('.sums').first().innerText()).replace(/^for .*? · /, '');
  const live = page.url();
  await page.locator('.row.execution').filter({ hasText: 'work' }).click();
  await page.getByRole('heading', { name: 'Attempts' }).waitFor();
  seen.live_buttons = await page.getByRole('region', { name: 'Execution' }).getByRole('button').allInnerTexts();

  // Narrow windows, light and dark: every view, without a movement to the side, and clean for axe.
  seen.wide = [];
  for (const colorScheme of ['light', 'dark']) {
    const narrow = await browser.newContext({ viewport: { width: 390, height: 844 }, colorScheme });
    const small = await narrow.newPage();
    watch(small);
    await small.goto(link);
    await small.getByRole('region', { name: 'Ensembles' }).waitFor();
    seen[colorScheme] = await small.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const views = [`${link.split('#')[0]}#/`, `${link.split('#')[0]}#/new`, `${link.split('#')[0]}#/batch/gate-rows`, `${link.split('#')[0]}#/edit/steps`, live,
      ...['rows', 'talk', 'graph', 'agents', 'at/1/first'].map(view => `${done}/${view}`)];
    for (const view of views) {
      await small.goto(view);
      await small.locator('h1').waitFor();
      await small.waitForFunction(() => !document.querySelector('main').textContent.includes('Loading…'));
      if (await small.evaluate(() => document.documentElement.scrollWidth > innerWidth)) seen.wide.push(`${colorScheme} ${view}`);
      const isWide = region => region.evaluate(element => element.scrollWidth > element.clientWidth);
      for (const region of await small.locator('.wide').all()) if (await isWide(region)) seen.wide.push(`${colorScheme} ${view} table`);
      await judged(small, `narrow-${colorScheme}-${view.split('/').slice(-2).join('-')}`);
    }
    // Each value of a row stands next to the label of its column, and the row is still one of a table.
    await small.goto(`${link.split('#')[0]}#/batch/gate-rows`);
    const cell = small.getByRole('row').filter({ hasText: 'waiting' }).getByRole('cell').filter({ hasText: 'waiting' }).first();
    await cell.waitFor();
    seen.labels = await cell.evaluate(element => getComputedStyle(element, '::before').content);
    await narrow.close();
  }
} catch (error) {
  seen.failed = error.message.slice(0, 900);
} finally {
  await browser.close();
  server.kill('SIGKILL');
}
console.log(JSON.stringify(seen));
