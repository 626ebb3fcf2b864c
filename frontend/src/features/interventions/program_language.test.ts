import { StringStream } from '@codemirror/language';
import { expect, test } from 'vitest';
import { nextKind } from './program_language';

/** The pieces of a line that have a kind. */
function piecesOf(line: string): readonly (readonly [kind: string, text: string])[] {
  const stream = new StringStream(line, 4, 2);
  const state = { inPlace: 'no' } as const;
  const pieces: [string, string][] = [];
  while (!stream.eol()) {
    const kind = nextKind(stream, state);
    if (kind !== null) pieces.push([kind, stream.current()]);
    expect(stream.pos).toBeGreaterThan(stream.start);
    stream.start = stream.pos;
  }
  return pieces;
}

test('places, vectors, numbers and what only programs have', () => {
  expect(piecesOf('layers[2].mlp.output = h + 4.5e-1 * vector("evil")[2]  # why')).toEqual([
    ['propertyName', 'layers'],
    ['number', '2'],
    ['propertyName', '.mlp.output'],
    ['variableName', 'h'],
    ['number', '4.5e-1'],
    ['keyword', 'vector'],
    ['string', '"evil"'],
    ['number', '2'],
    ['comment', '# why'],
  ]);
});

test('operators are told from names; a module is a call, a place is not', () => {
  expect(piecesOf('if x.abs() > 1: y = final_norm(final_norm.output)')).toEqual([
    ['keyword', 'if'],
    ['variableName', 'x'],
    ['operatorKeyword', 'abs'],
    ['number', '1'],
    ['variableName', 'y'],
    ['keyword', 'final_norm'],
    ['propertyName', 'final_norm.output'],
  ]);
  expect(piecesOf('softmax = mean')).toEqual([
    ['variableName', 'softmax'],
    ['variableName', 'mean'],
  ]);
  expect(piecesOf('layers[layer - 1].output[:, -1] = 0')).toEqual([
    ['propertyName', 'layers'],
    ['keyword', 'layer'],
    ['number', '1'],
    ['propertyName', '.output'],
    ['number', '1'],
    ['number', '0'],
  ]);
});

test('what is not finished does not stop it', () => {
  expect(piecesOf('save(h, "na')).toEqual([
    ['keyword', 'save'],
    ['variableName', 'h'],
    ['string', '"na'],
  ]);
});
