import { StreamLanguage, type StringStream } from '@codemirror/language';
import { kCalls, kOperators } from './vocabulary';

// The colours of the program language. The trainer, not the page, interprets the lines.

const kPlace = /^layers(?=\s*\[)/;
const kPath = /^\.(?:[a-z_]\w*\.)*[a-z_]\w*/;
const kNumber = /^(?:\d[\d_]*)?\.?\d+(?:[eE][+-]?\d+)?|^\d[\d_]*\.?(?:[eE][+-]?\d+)?/;
const kString = /^(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)/;
const kWord = /^[A-Za-z_]\w*/;
const kKeywords: ReadonlySet<string> = new Set(['if', 'True', 'False', 'None', 'layer']);
/** The first words of places outside the layers. */
const kOutside: ReadonlySet<string> = new Set([
  ...['tokens', 'embedding', 'logits', 'final_norm', 'output_layer'],
]);

interface State {
  /** The position in a place: 'bracket' is after `layers`, 'path' is after the closing bracket. */
  inPlace: 'no' | 'bracket' | 'path';
}

/** CodeMirror's name for the kind of the next piece of text; null if it has no kind. */
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
