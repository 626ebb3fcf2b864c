import { StreamLanguage, type StringStream } from '@codemirror/language';
import { kCalls, kOperators } from './vocabulary';

// The colours of the language of programs. What a line means says the trainer.

const kPlace = /^layers(?=\s*\[)/;
const kPath = /^\.(?:[a-z_]\w*\.)*[a-z_]\w*/;
const kNumber = /^(?:\d[\d_]*)?\.?\d+(?:[eE][+-]?\d+)?|^\d[\d_]*\.?(?:[eE][+-]?\d+)?/;
const kString = /^(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)/;
const kWord = /^[A-Za-z_]\w*/;
const kKeywords: ReadonlySet<string> = new Set(['if', 'True', 'False', 'None', 'layer']);
/** Places outside the layers begin so. */
const kOutside: ReadonlySet<string> = new Set([
  ...['tokens', 'embedding', 'logits', 'final_norm', 'output_layer'],
]);

interface State {
  /** Behind `layers[…]`: what follows the bracket is the rest of a place. */
  inPlace: 'no' | 'bracket' | 'path';
}

/** The kind of the next piece of text, as CodeMirror names them; null: none of them. */
export function nextKind(stream: StringStream, state: State): string | null {
  if (state.inPlace === 'path') {
    state.inPlace = 'no';
    if (stream.match(kPath)) return 'propertyName';
  }
  if (stream.eatSpace()) return null;
  if (stream.match(/^#.*/)) return 'comment';
  if (stream.match(kString)) return 'string';
  if (stream.match(kPlace)) {
    state.inPlace = 'bracket';
    return 'propertyName';
  }
  if (stream.match(kNumber)) return 'number';
  if (stream.match(kWord)) return kindOfWord(stream);
  if (stream.next() === ']' && state.inPlace === 'bracket') state.inPlace = 'path';
  return null;
}

function kindOfWord(stream: StringStream): string {
  const word = stream.current();
  const isCall = stream.match(/^\s*\(/, false) !== null;
  if (kKeywords.has(word)) return 'keyword';
  if (isCall && kCalls.has(word)) return 'keyword';
  if (kOutside.has(word) && !isCall) {
    stream.match(kPath);
    return 'propertyName';
  }
  return isCall && kOperators.has(word) ? 'operatorKeyword' : 'variableName';
}

export const kProgramLanguage = StreamLanguage.define<State>({
  name: 'tensor-tracer',
  startState: () => ({ inPlace: 'no' }),
  token: nextKind,
  languageData: { commentTokens: { line: '#' } },
});
