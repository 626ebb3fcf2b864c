import { expect, test } from '@playwright/test';
import { readByPython } from './live_support.ts';
import { hoverTile, idle, tipValue } from './support.ts';

// What stands under the cursor is what the Python client reads of the same step of a real run.

const kPatience = { timeout: 60_000 };
const kTiles = 64;
const kDtypes = ['f32', 'bf16', 'u8'] as const;

interface Read {
  readonly step: number;
  readonly layer: number;
  /** By dtype, tile and token. */
  readonly values: readonly (readonly (readonly number[])[])[];
  /** The entries of the plan that was in force. */
  readonly before: readonly unknown[];
}

/** How far a value may be from float32's: of u8 a 504th of what its line spans, of bf16 half a unit. */
function boundOf(dtype: string, exact: number, line: readonly number[]): number {
  if (dtype === 'u8') return (Math.max(...line) - Math.min(...line)) / 504 + 1e-6;
  return dtype === 'bf16' ? Math.abs(exact) / 256 : Math.abs(exact) * 1e-6;
}

test('the value under the cursor is that of the Python client', async ({ page }) => {
  const address = process.env.TT_PAGE_URL ?? '';
  const { step, layer, values, before } = await readByPython<Read>('live_values.py', address);
  for (const [index, dtype] of kDtypes.entries()) {
    const point = `HiddenStates${index === 0 ? '' : ` #${index + 1}`}`;
    await page.goto(address.replace('/#', `/?step=${step}&layer=${layer}#`));
    await expect(page.getByTestId('tile-map')).toBeVisible(kPatience);
    await page.getByTestId('point').selectOption(point);
    await expect(page.getByTestId('shown-step')).toHaveText(`step ${step}`, kPatience);
    await idle(page);
    const tokens = values[index][0].length;
    for (let turn = 0; turn < 20; turn++) {
      const [tile, token] = [(turn * 37) % kTiles, (turn * 101) % tokens];
      await hoverTile(page, tile, token, kTiles, tokens);
      const shown = await tipValue(page);
      const read = values[index][tile][token];
      const where = `${dtype}, tile ${tile}, token ${token}`;
      expect(shown, where).toBe(Number(Math.fround(read).toPrecision(7)));
      const exact = values[0][tile][token];
      const line = values[0].map((of) => of[token]);
      expect(Math.abs(shown - exact), where).toBeLessThanOrEqual(boundOf(dtype, exact, line));
    }
  }
  await page.evaluate((entries) => window.__tt?.app.control.setPlan({ entries }), before);
});
