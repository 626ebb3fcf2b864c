import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import { kSlow, openAfter, test } from './real_run.ts';
import { idle, kSmoke, open } from './support.ts';

test.use({ flags: kSlow });

async function find(page: Page, text: string): Promise<void> {
  await page.keyboard.press('Control+k');
  await expect(page.getByRole('combobox', { name: 'Command' })).toBeFocused();
  await page.keyboard.type(text);
}

test('layers, steps, tabs, points and switches are found by name', async ({ page, run }) => {
  await openAfter(page, run, 12);
  const palette = page.getByTestId('palette');
  await find(page, 'layer 3');
  await expect(palette.getByRole('option').first()).toContainText('Layer 3');
  await page.keyboard.press('Enter');
  await expect(palette).toBeHidden();
  await expect(page.getByTestId('layer')).toHaveValue('3');
  await find(page, 'step 8');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('shown-step')).toHaveText('step 8');
  await find(page, 'follow');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('shown-step')).toHaveText('step 12');
  await find(page, 'point mlp1');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('point')).toHaveValue('MLP1');
  await find(page, '99');
  await page.keyboard.press('Enter');
  await idle(page);
  expect(new URL(page.url()).searchParams.get('clip')).toBe('99');
  await find(page, 'compare');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('side-A')).toBeVisible();
  await find(page, 'b step 4');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('step-B')).toHaveValue('4');
});

test('arrows move, Escape closes, and the focus goes back where it was', async ({ page, run }) => {
  await openAfter(page, run, 1);
  await page.getByTestId('follow').focus();
  await page.keyboard.press('Meta+k');
  const box = page.getByRole('combobox', { name: 'Command' });
  await expect(box).toHaveAttribute('aria-activedescendant', 'palette-0');
  await page.keyboard.press('ArrowDown');
  await expect(box).toHaveAttribute('aria-activedescendant', 'palette-1');
  await expect(page.locator('#palette-1')).toHaveAttribute('aria-selected', 'true');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowUp');
  await expect(page.locator('#palette-0')).toHaveAttribute('aria-selected', 'false');
  for (let i = 0; i < 4; i++) await page.keyboard.press('Tab');
  const inside = (): Promise<boolean> =>
    page.evaluate(() => document.activeElement?.closest('header, main, footer, nav') == null);
  expect(await inside()).toBe(true);
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('palette')).toBeHidden();
  await expect(page.getByTestId('follow')).toBeFocused();
  await find(page, 'zzzz');
  await expect(page.getByTestId('palette')).toContainText('No command has this name.');
});

test('control: claim, pause, release; and why not, while another holds it', async ({
  page,
  run,
}) => {
  await run.goOn();
  await open(page, run);
  await find(page, 'claim');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('holder')).toContainText('you');
  await find(page, 'pause');
  await page.keyboard.press('Enter');
  const paused = await run.pausedAfter();
  await expect(page.getByTestId('chip')).toHaveText(`paused after step ${paused}`);
  await find(page, 'release');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('holder')).toContainText('free');
  await expect(page.getByTestId('chip')).toHaveText('live');
  await run.remote.claim('Ada');
  await run.remote.ask('control.pause', {});
  await expect(page.getByTestId('holder')).toContainText('Ada');
  await expect(page.getByTestId('chip')).toHaveAttribute('data-word', 'paused');
  await find(page, 'continue');
  await expect(page.locator('#palette-0')).toHaveAttribute('aria-disabled', 'true');
  await expect(page.locator('#palette-0')).toContainText('Ada holds control');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('palette')).toBeVisible();
});

test('the sheet of shortcuts is the same list', kSmoke, async ({ page, run }) => {
  await run.goOn();
  await open(page, run);
  await find(page, 'keyboard');
  await page.keyboard.press('Enter');
  const sheet = page.getByRole('dialog', { name: 'Keyboard' });
  await expect(sheet).toBeVisible();
  for (const text of ['Pause the run', 'Go to Compare', 'Layer below', 'Find a command']) {
    await expect(sheet.getByText(text)).toBeVisible();
  }
  await page.screenshot({ path: 'test-results/help.png' });
});

for (const colorScheme of ['dark', 'light'] as const) {
  test(`picture and axe of the palette, ${colorScheme}`, async ({ page, run }) => {
    await page.emulateMedia({ colorScheme });
    await openAfter(page, run, 1);
    await find(page, 'l');
    await page.screenshot({ path: `test-results/palette-${colorScheme}.png` });
    const { violations } = await new AxeBuilder({ page })
      .include('[data-testid="palette"]')
      .analyze();
    const serious = violations.filter(
      ({ impact }) => impact === 'serious' || impact === 'critical',
    );
    expect(serious.map(({ id, nodes }) => `${id} ${String(nodes[0]?.target[0])}`)).toEqual([]);
  });
}
