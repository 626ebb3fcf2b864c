import { stateOf } from '../../core/registry/state_of';
import { type RankedFile, RankedFileError, readRanked } from './ranked_file';
import { matchesOf, type Order, ordered, type RankedColumn } from './ranked_rows';

interface Reading {
  readonly name: string;
  /** The share that is read, from 0 to 1. */
  readonly share: number;
}

/** The order in which a column is sorted at first. */
const kFirstOrder: Readonly<Record<RankedColumn, Order>> = {
  rank: 'up',
  score: 'down',
  line: 'up',
  text: 'up',
};

/** A file of `vector score` that the user has opened. It outlives the view, and does not leave the browser. */
export class Ranked {
  file = $state.raw<RankedFile | null>(null);
  error = $state('');
  reading = $state.raw<Reading | null>(null);
  words = $state('');
  column = $state<RankedColumn>('rank');
  order = $state<Order>('up');
  /** The texts in the table, as indices of the file's texts. */
  rows = $state.raw<readonly number[]>([]);
  /** The text beside the table. */
  chosen = $state<number | null>(null);

  private matches: readonly number[] = [];
  /** Count the requests, so that an older one does not replace the result of a newer one. */
  private opened = 0;
  private filtered = 0;

  async open(file: File): Promise<void> {
    const turn = ++this.opened;
    this.filtered += 1;
    const { name } = file;
    this.file = null;
    this.error = '';
    this.reading = { name, share: 0 };
    try {
      const read = await readRanked(file, (share) => {
        if (turn !== this.opened) return false;
        this.reading = { name, share };
        return true;
      });
      if (read !== null && turn === this.opened) this.take(read);
    } catch (error) {
      if (turn === this.opened) this.error = reasonOf(error, name);
    }
    if (turn === this.opened) this.reading = null;
  }

  /** Keeps the texts that contain the words. */
  async filter(words: string): Promise<void> {
    const turn = ++this.filtered;
    this.words = words;
    const texts = this.file?.texts ?? [];
    const found = await matchesOf(texts, words, () => turn === this.filtered);
    if (found === null || turn !== this.filtered) return;
    this.matches = found;
    this.sortRows();
    if (this.chosen !== null && !found.includes(this.chosen)) this.chosen = null;
  }

  /** Sorts by a column; if it is sorted already, in the other order. */
  sort(column: RankedColumn): void {
    const turned = this.order === 'up' ? 'down' : 'up';
    this.order = column === this.column ? turned : kFirstOrder[column];
    this.column = column;
    this.sortRows();
  }

  private take(file: RankedFile): void {
    this.file = file;
    this.words = '';
    this.chosen = null;
    this.matches = file.texts.map((_, index) => index);
    this.column = 'rank';
    this.order = 'up';
    this.sortRows();
  }

  private sortRows(): void {
    this.rows = ordered(this.file?.texts ?? [], this.matches, this.column, this.order);
  }
}

function reasonOf(error: unknown, name: string): string {
  if (error instanceof RankedFileError) return error.message;
  const reason = error instanceof Error ? error.message : String(error);
  return `"${name}" cannot be read: ${reason}. Open it again.`;
}

export const rankedOf = stateOf(() => new Ranked());
