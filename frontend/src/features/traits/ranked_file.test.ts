import { describe, expect, test } from 'vitest';
import { RankedFileError, readRanked } from './ranked_file';

const kName = 'scored.jsonl';

function fileOf(...parts: readonly (string | Uint8Array<ArrayBuffer>)[]): File {
  return new File([...parts], kName);
}

async function errorOf(...parts: readonly (string | Uint8Array<ArrayBuffer>)[]): Promise<string> {
  try {
    await readRanked(fileOf(...parts));
  } catch (error) {
    if (error instanceof RankedFileError) return error.message;
    throw error;
  }
  return '';
}

describe('a file of vector score', () => {
  test('projections of texts, and of prompts with responses', async () => {
    const file = await readRanked(
      fileOf(
        '{"text":"Thou art","projection":2.5,"rank":1}\n',
        '{"prompt":"Hi?","response":"Hello","projection":-0.5,"rank":2}\r\n',
        '{"document":3,"projection":null,"rank":null}',
      ),
    );
    expect(file).toMatchObject({ name: kName, score: 'projection' });
    expect(file?.texts).toEqual([
      { line: 1, score: 2.5, rank: 1, own: null, base: null, prompt: '', text: 'Thou art' },
      { line: 2, score: -0.5, rank: 2, own: null, base: null, prompt: 'Hi?', text: 'Hello' },
      { line: 3, score: null, rank: null, own: null, base: null, prompt: '', text: 'document 3' },
    ]);
  });

  test('projection differences, with both projections', async () => {
    const line =
      '{"text":"a","projection_difference":1,"projection":3,"base_projection":2,"rank":1}';
    const file = await readRanked(fileOf(line));
    expect(file?.score).toBe('projection_difference');
    expect(file?.texts[0]).toMatchObject({ score: 1, own: 3, base: 2 });
  });

  test('blank lines count as lines, and other members do not matter', async () => {
    const line = '{"text":"ä","projection":1,"rank":1,"origin":{"book":"Ruth"}}';
    const file = await readRanked(fileOf('\ufeff', '\n \n', line, '\n\n'));
    expect(file?.texts.map(({ line: at, text }) => [at, text])).toEqual([[3, 'ä']]);
  });

  test('lines that chunks of the file divide', async () => {
    const lines = Array.from({ length: 300 }, (_, at) =>
      JSON.stringify({ text: `${'é'.repeat(at)} ${at}`, projection: at, rank: 300 - at }),
    );
    const bytes = new TextEncoder().encode(lines.join('\n'));
    const pieces = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += 7) controller.enqueue(bytes.slice(at, at + 7));
        controller.close();
      },
    });
    const file = await readRanked({ name: kName, size: bytes.length, stream: () => pieces });
    expect(file?.texts.map(({ score }) => score)).toEqual(lines.map((_, at) => at));
    expect(file?.texts[299].text).toBe(`${'é'.repeat(299)} 299`);
  });

  test('its progress is told, and it can be stopped', async () => {
    const file = fileOf('{"text":"a","projection":1,"rank":1}\n');
    const shares: number[] = [];
    await readRanked(file, (share) => shares.push(share) > 0);
    expect(shares.at(-1)).toBe(1);
    expect(await readRanked(file, () => false)).toBeNull();
  });
});

describe('a wrong file', () => {
  const kRight = '{"text":"a","projection":1,"rank":1}\n';
  const kRemedy = 'Open a file that tensor-tracer vector score wrote.';

  test('is named with the line', async () => {
    const at = (line: number, reason: string): string => `line ${line} of "${kName}" ${reason}`;
    expect(await errorOf(kRight, '\n{"text":')).toBe(`${at(3, 'is not JSON')}. ${kRemedy}`);
    expect(await errorOf('[1]')).toBe(`${at(1, 'is not a JSON object')}. ${kRemedy}`);
    expect(await errorOf('{"text":"a"}')).toBe(
      `${at(1, 'has no "projection" and no "projection_difference"')}. ${kRemedy}`,
    );
    expect(await errorOf(kRight, '{"text":"a","rank":2}')).toBe(
      `${at(2, 'is wrong: projection: expected a number')}. ${kRemedy}`,
    );
    expect(await errorOf('{"text":"a","projection":1,"rank":"first"}')).toBe(
      `${at(1, 'is wrong: rank: expected a whole number from 0')}. ${kRemedy}`,
    );
    expect(await errorOf('{"text":7,"projection":1,"rank":1}')).toBe(
      `${at(1, 'is wrong: text: expected a string')}. ${kRemedy}`,
    );
    expect(await errorOf(kRight, Uint8Array.of(0x7b, 0xff, 0x7d))).toBe(
      `${at(2, 'is not UTF-8')}. ${kRemedy}`,
    );
  });

  test('without a text is named', async () => {
    expect(await errorOf('')).toBe(`"${kName}" holds no text. ${kRemedy}`);
    expect(await errorOf('\n\n')).toBe(`"${kName}" holds no text. ${kRemedy}`);
  });

  test('with too many texts is not read', async () => {
    const read = readRanked(fileOf(kRight.repeat(1001)), () => true, 1000);
    await expect(read).rejects.toThrow(
      `"${kName}" has more than 1\u202f000 texts. Open a part of it: head -n 1000 FILE > PART`,
    );
    expect((await readRanked(fileOf(kRight.repeat(1000)), () => true, 1000))?.texts).toHaveLength(
      1000,
    );
  });
});
