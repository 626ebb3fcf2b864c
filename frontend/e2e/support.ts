import AxeBuilder from '@axe-core/playwright';
import { expect, type Locator, type Page } from '@playwright/test';
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const kDist = fileURLToPath(new URL('../dist', import.meta.url));

export const kPython =
  process.env.TT_PYTHON ?? fileURLToPath(new URL('../../.venv/bin/python3', import.meta.url));

/** Where the programs are. */
export const kPrograms =
  process.env.TT_BIN_DIR ?? fileURLToPath(new URL('../../build/release/bin', import.meta.url));

/** A test that CI runs; scripts/nightly.sh runs all others. */
export const kSmoke = { tag: '@smoke' };

/** A test against a real run that only scripts/nightly.sh runs. */
export const kNightly = { tag: '@nightly' };

/** Opens the page with the token and waits until it shows the maps, or what else is asked for. */
export async function open(
  page: Page,
  hub: { readonly url: string },
  testid = 'tile-map',
): Promise<void> {
  await page.goto(hub.url);
  await expect(page.getByTestId(testid)).toBeVisible();
  await idle(page);
}

/** Goes to the Plan view. */
export async function openPlan(page: Page): Promise<void> {
  await page.getByTestId('tab-plan').click();
  await expect(page.getByTestId('plan-list')).toBeVisible();
  await idle(page);
}

/** Shows the form of an entry of the plan, from 1. */
export async function chooseEntry(page: Page, entry: number): Promise<void> {
  const name = page.getByRole('button', { name: new RegExp(`^Entry ${entry},`) });
  await name.click();
  await expect(name).toHaveAttribute('aria-pressed', 'true');
}

/** The address that a replay prints. */
export function addressOf(replay: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = '';
    replay.on('exit', (code) => reject(new Error(`replay ended with ${code}: ${said}`)));
    replay.stdout?.on('data', (piece: Buffer) => {
      said += piece.toString();
      const url = /http:\/\/127\.0\.0\.1:\d+\//.exec(said)?.[0];
      if (url !== undefined) resolve(url);
    });
  });
}

export async function idle(page: Page): Promise<void> {
  await page.evaluate(() => window.__tt?.idle());
}

interface Advancing {
  readonly step: number;
  advance(): void | Promise<void>;
}

/** Runs steps of the hub and waits until the page shows the last one. */
export async function advance(page: Page, hub: Advancing, steps = 1): Promise<void> {
  for (let i = 0; i < steps; i++) await hub.advance();
  await expect(page.getByTestId('shown-step')).toHaveText(`step ${hub.step}`);
  await idle(page);
}

/** What axe finds serious on the page as it is. */
export async function seriousOf(page: Page): Promise<readonly string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  return serious.flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${String(node.target[0])} ${node.failureSummary ?? ''}`),
  );
}

const kGutter = 44;
const kTextGutter = 92;
const kAxis = 18;
const kTextAxis = 32;

/** The room that the axes of a map take, in CSS pixels. */
export async function axesOf(
  map: Locator,
): Promise<{ readonly left: number; readonly below: number }> {
  const name = await map.getAttribute('data-testid');
  const left = name === 'attention-map' ? kTextGutter : kGutter;
  if (name === 'layer-map' || name?.startsWith('compare-layers') === true) {
    return { left, below: 0 };
  }
  const isPlain = /^(over-map|stat-map|(trait|beside)-map-\d+)$/.test(name ?? '');
  return { left, below: isPlain ? kAxis : kTextAxis };
}

/** A float32 as the page writes it, with so many digits. */
export const digits = (value: number, count = 7): number =>
  Number(Math.fround(value).toPrecision(count));

export interface Spot {
  readonly x: number;
  readonly y: number;
}

/** The middle of a cell on the canvas of a map, in its own CSS pixels. */
export async function spotOf(
  map: Locator,
  row: number,
  col: number,
  rows: number,
  cols: number,
): Promise<Spot> {
  const box = await map.boundingBox();
  if (box === null) throw new Error('the map is not on the page');
  const { left, below } = await axesOf(map);
  const height = box.height - below;
  return {
    x: left + ((col + 0.5) / cols) * (box.width - left),
    y: ((row + 0.5) / rows) * height,
  };
}

export async function hoverTile(
  page: Page,
  tile: number,
  token: number,
  tiles: number,
  tokens: number,
): Promise<void> {
  const map = page.getByTestId('tile-map');
  await map.hover({ position: await spotOf(map, tile, token, tiles, tokens) });
}

export async function hoverLayer(
  page: Page,
  layer: number,
  token: number,
  layers: number,
  tokens: number,
): Promise<void> {
  const map = page.getByTestId('layer-map');
  await map.hover({ position: await spotOf(map, layer - 1, token, layers, tokens) });
}

/** The number in the tooltip. */
export async function tipValue(page: Page): Promise<number> {
  const text = await page.getByTestId('tip-value').innerText();
  return Number(text.replace(/−/g, '-'));
}

/** How many colours a canvas shows, and its pixel at a spot as "r,g,b". */
export async function pixels(
  canvas: Locator,
  spot: Spot = { x: 0, y: 0 },
): Promise<{ readonly colors: number; readonly at: string }> {
  return canvas.evaluate((element, { x, y }) => {
    const source = element as HTMLCanvasElement;
    const context = source.getContext('2d');
    if (context === null) throw new Error('no 2D canvas');
    const { data, width } = context.getImageData(0, 0, source.width, source.height);
    const words = new Uint32Array(data.buffer);
    const ratio = source.width / source.clientWidth;
    const i = 4 * (Math.floor(y * ratio) * width + Math.floor(x * ratio));
    return { colors: new Set(words).size, at: [...data.slice(i, i + 3)].join(',') };
  }, spot);
}

/** Presses a button by its name. */
export async function choose(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name, exact: true }).click();
  await idle(page);
}
