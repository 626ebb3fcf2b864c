import { expect, test } from 'vitest';
import { insertionsOf } from './insertions';
import { kReadyPrograms, readyProgram } from './ready_programs';

test('every ready-made program is there, with the title that its first line gives', () => {
  expect(kReadyPrograms.length).toBeGreaterThan(0);
  for (const { name, title, text } of kReadyPrograms) {
    expect(name).toMatch(/^[a-z0-9_]+$/);
    expect(text.split('\n')[0]).toBe(`# ${title}`);
  }
});

test('a program without a title has its file name', () => {
  expect(readyProgram('../a/clamp.tti', '#  Clamp: a limit \nx = 1\n')).toMatchObject({
    name: 'clamp',
    title: 'Clamp: a limit',
  });
  expect(readyProgram('clamp.tti', 'x = 1 # no title\n').title).toBe('clamp');
});

test('vectors and places of a layer are offered; no vectors where the run has none', () => {
  const [vectors, layer] = insertionsOf(['evil', 'a "b"'], 3);
  expect(vectors.texts).toEqual(['vector("evil")[3]', 'vector("a \\"b\\"")[3]']);
  expect(layer.texts).toContain('layers[3].mlp.activation');
  expect(insertionsOf([], 1).map(({ title }) => title)).not.toContain('Vectors');
});
