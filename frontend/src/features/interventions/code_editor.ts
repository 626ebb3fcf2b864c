import {
  autocompletion,
  type Completion,
  type CompletionContext,
  completionKeymap,
  type CompletionResult,
} from '@codemirror/autocomplete';
import {
  history,
  historyKeymap,
  insertNewlineKeepIndent,
  isolateHistory,
  standardKeymap,
} from '@codemirror/commands';
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorState, type Extension, Prec, StateEffect, StateField } from '@codemirror/state';
import {
  Decoration,
  type DecorationSet,
  EditorView,
  keymap,
  lineNumbers,
  placeholder,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { kProgramLanguage } from './program_language';
import { type Suggestions, suggestionsAt } from './suggestions';
import type { Facts, Word } from './vocabulary';

// The editor of programs: CodeMirror with the colours and the completion of the program language.

export interface EditorOptions {
  readonly parent: HTMLElement;
  readonly text: string;
  readonly example: string;
  readonly facts: () => Facts | null;
  readonly onwrite: (text: string) => void;
  readonly onsubmit: () => void;
}

/** From and to, in characters of the text. */
export type Range = readonly [from: number, to: number];

const kMarked = StateEffect.define<Range | null>();

const kMark = Decoration.mark({
  class: 'program-mark',
  attributes: { 'data-testid': 'program-mark' },
});

const kMarks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (marks, { effects, changes }) =>
    effects.reduce(
      (now, effect) => (effect.is(kMarked) ? marksOf(effect.value) : now),
      marks.map(changes),
    ),
  provide: (field) => EditorView.decorations.from(field),
});

function marksOf(range: Range | null): DecorationSet {
  return range === null ? Decoration.none : Decoration.set(kMark.range(range[0], range[1]));
}

const kColors = HighlightStyle.define([
  { tag: tags.comment, color: 'var(--ink-muted)', fontStyle: 'italic' },
  { tag: tags.string, color: 'var(--good)' },
  { tag: tags.number, color: 'var(--valid)' },
  { tag: tags.keyword, color: 'var(--mark-intervention)' },
  { tag: tags.propertyName, color: 'var(--accent)' },
  { tag: tags.operatorKeyword, color: 'var(--rate)' },
]);

const kTheme = EditorView.theme({
  '&': { flex: '1', minHeight: '0', fontSize: 'var(--text-small)', color: 'var(--ink)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '17px', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--ink)', padding: '4px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': {
    background: 'var(--panel-head)',
    border: 'none',
    color: 'var(--ink-muted)',
  },
  '.cm-placeholder': { color: 'var(--ink-muted)' },
  '.program-mark': {
    background: 'var(--bad-wash)',
    textDecoration: 'underline wavy var(--bad)',
    textDecorationSkipInk: 'none',
  },
  '.cm-tooltip': {
    background: 'var(--panel)',
    border: '1px solid var(--line)',
    borderRadius: '4px',
    boxShadow: 'var(--shadow)',
    color: 'var(--ink)',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', maxHeight: '16em' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    background: 'var(--accent)',
    color: 'var(--accent-ink)',
  },
  '.cm-completionDetail': { color: 'inherit', fontStyle: 'normal', opacity: '0.8' },
});

/** Words of this program and of this run come first. */
const kBoosts: Readonly<Record<Word['kind'], number>> = {
  name: 4,
  vector: 3,
  line: 2,
  place: 1,
  operator: 0,
};

function completionOf({ text, about, kind }: Word): Completion {
  return { label: text, detail: about, boost: kBoosts[kind] };
}

function completed(context: CompletionContext, facts: Facts | null): CompletionResult | null {
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const found: Suggestions | null = suggestionsAt(before, context.state.doc.toString(), facts);
  // Without typed text, suggestions appear only on request.
  const isTyping = context.explicit || /[\w.\]"']$/.test(before);
  if (
    found === null ||
    !isTyping ||
    (found.back === 0 && !context.explicit && !/[."']$/.test(before))
  ) {
    return null;
  }
  return {
    from: context.pos - found.back,
    options: found.words.map(completionOf),
    validFor: /^[\w.]*$/,
  };
}

export function makeEditor(options: EditorOptions): EditorView {
  const { parent, text, onwrite, onsubmit } = options;
  const submit = (): boolean => {
    onsubmit();
    return true;
  };
  const extensions: Extension[] = [
    lineNumbers(),
    EditorView.lineWrapping,
    history(),
    kProgramLanguage,
    syntaxHighlighting(kColors),
    autocompletion({ override: [(context) => completed(context, options.facts())], icons: false }),
    kMarks,
    kTheme,
    placeholder(options.example),
    Prec.highest(keymap.of([{ key: 'Mod-Enter', run: submit }])),
    keymap.of([
      ...completionKeymap,
      { key: 'Enter', run: insertNewlineKeepIndent },
      ...historyKeymap,
      ...standardKeymap,
    ]),
    EditorView.contentAttributes.of({
      'aria-label': 'Text of the program',
      'data-testid': 'program-text',
      autocapitalize: 'off',
      spellcheck: 'false',
    }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) onwrite(update.state.doc.toString());
    }),
  ];
  return new EditorView({ parent, state: EditorState.create({ doc: text, extensions }) });
}

/** Replaces the whole text; the user can undo the change. */
export function replaceText(view: EditorView, text: string): void {
  if (view.state.doc.toString() === text) return;
  view.dispatch({
    changes: { from: 0, to: view.state.doc.length, insert: text },
    annotations: isolateHistory.of('full'),
  });
}

/** Marks the range of an error. A range beyond the text marks the last character. */
export function markRange(view: EditorView, range: Range | null): void {
  const { length } = view.state.doc;
  const to = range === null ? 0 : Math.min(length, Math.max(range[1], range[0] + 1));
  const from = range === null ? 0 : Math.min(range[0], to - 1);
  view.dispatch({ effects: kMarked.of(range === null || from < 0 ? null : [from, to]) });
}

/** Selects a part of the text and moves the focus there. */
export function chooseRange(view: EditorView, [from, to]: Range): void {
  const { length } = view.state.doc;
  const anchor = Math.min(from, length);
  view.dispatch({ selection: { anchor, head: Math.min(to, length) }, scrollIntoView: true });
  view.focus();
}
