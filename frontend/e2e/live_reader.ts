import { expect, type Locator, type Page } from '@playwright/test';

const kPatience = { timeout: 60_000 };

/** A reader who counts her clicks. */
export class Reader {
  clicks = 0;

  constructor(readonly page: Page) {}

  async click(target: Locator): Promise<void> {
    this.clicks += 1;
    await target.click();
  }

  async choose(list: Locator, option: string): Promise<void> {
    this.clicks += 2;
    await list.selectOption(option);
  }

  /** Ctrl K, words, and Enter once the wanted command stands first. */
  async command(words: string, wanted: string | RegExp): Promise<void> {
    await this.page.keyboard.press('Control+k');
    const palette = this.page.getByTestId('palette');
    await palette.getByRole('combobox').fill(words);
    await expect(palette.getByRole('option').first()).toContainText(wanted, kPatience);
    await this.page.keyboard.press('Enter');
  }

  async type(...keys: string[]): Promise<void> {
    for (const each of keys) {
      if (each === 'Tab') await this.page.keyboard.press('Tab');
      else await this.page.keyboard.type(each);
    }
  }
}
