import { untrack } from 'svelte';
import {
  type Preview,
  previewSchema,
  type ProgramCheck,
  programCheckSchema,
} from '../../protocol/interventions';
import type { HubError } from '../../protocol/messages';
import { readBeforeAfter } from './before_after';
import { accessOf } from '../../core/session/access';
import type { Session } from '../../core/session/session';
import { expressionErrorOf } from '../../protocol/expression_error';
import type { Outcome } from '../../core/session/controller.svelte';
import { interventionsOf } from './interventions.svelte';
import { LiveCheck } from '../../core/session/live_check.svelte';
import { previewPlan } from './preview_plan';
import { programOf, wrongValue } from './program_words';
import { fitsAddress } from '../../core/session/url_state';

const kFree = 'Nobody holds control: Preview, Apply and the sliders claim it.';
const kReplayed = 'A recording does not run the model. These are the programs of the recorded run.';
const kNoName = 'program';

/** A program that was checked and is about to be previewed and applied. */
export interface Armed {
  readonly name: string;
  readonly program: unknown;
  readonly check: ProgramCheck;
}

/** The draft of an intervention: typed, checked, armed, previewed, applied. */
export class ProgramDraft {
  readonly checker: LiveCheck<{ readonly program: unknown }, ProgramCheck>;
  armed = $state.raw<Armed | null>(null);
  /** Typed values of the armed program's parameters, and for how many steps it is to act. */
  values = $state<Record<string, string>>({});
  ttl = $state('');
  keep = $state(false);
  preview = $state.raw<Preview | null>(null);
  /** The layer whose tiles the maps of a preview show; null: the last. */
  previewLayer = $state<number | null>(null);
  /** The last program that this page has applied, and the step from which it is in force. */
  applied = $state.raw<{ name: string; step: number; ranks: number } | null>(null);

  readonly access = $derived.by(() => accessOf(this.session, kFree, kReplayed));
  readonly text = $derived.by(() => this.session.view.program);
  readonly name = $derived.by(() => this.session.view.programName.trim() || kNoName);
  readonly isEmpty = $derived(this.text.trim() === '');
  /** The address is too short for it: a reload loses it. */
  readonly isTooLong = $derived.by(() => !fitsAddress(this.session.view, 'program'));
  readonly error = $derived.by((): HubError | null => this.refused ?? this.checker.error);
  readonly found = $derived(
    this.error === null ? null : expressionErrorOf(this.error.message, this.error.where),
  );
  /** What was said of the draft as it was last answered and good. */
  readonly check = $derived.by(() => this.checker.answered?.result ?? null);
  readonly isFine = $derived.by(() => this.checker.fresh && this.error === null);
  /** Why nobody says whether the draft is good; '' where somebody does. */
  readonly hindrance = $derived.by(() => this.hindranceOf());
  /** The maps of the preview; null where its answer has none. */
  readonly beforeAfter = $derived(readBeforeAfter(this.preview?.records));
  /** What is wrong with what was typed for the armed program; '' where nothing is. */
  readonly wrong = $derived.by(() => this.wrongOf());

  private refused = $state.raw<HubError | null>(null);
  /** Who was asked: session and run. */
  private trainer = '';

  constructor(private readonly session: Session) {
    this.checker = new LiveCheck(session.link, 'intervention.check', programCheckSchema);
  }

  dispose(): void {
    this.checker.dispose();
  }

  /** Asks the trainer about the draft as it stands. A replay has none. */
  follow(): void {
    const { text, isEmpty } = this;
    const { session, viewOnly } = this.session.control;
    const { run, replay } = this.session;
    const canAsk = session !== '' && run !== null && replay === null;
    const trainer = `${session}/${run?.id ?? ''}`;
    const asked = canAsk && !viewOnly && !isEmpty ? { program: programOf(text) } : null;
    untrack(() => {
      if (trainer !== this.trainer) {
        this.checker.restart();
        this.disarm();
      }
      this.trainer = trainer;
      this.checker.check(asked);
    });
  }

  write(text: string): void {
    this.refused = null;
    this.disarm();
    this.session.show({ program: text });
  }

  rename(name: string): void {
    this.disarm();
    this.session.show({ programName: name });
  }

  take(name: string, text: string): void {
    this.rename(name);
    this.write(text);
  }

  arm(): void {
    const { answered } = this.checker;
    if (!this.isFine || answered === null || this.access.readOnly) return;
    const { asked, result } = answered;
    this.values = Object.fromEntries(
      result.parameters.map(({ name, value }) => [name, String(value)]),
    );
    this.preview = null;
    this.armed = { name: this.name, program: asked.program, check: result };
  }

  disarm(): void {
    this.armed = null;
    this.preview = null;
  }

  /** To be called after every change of a value: what was previewed is another program. */
  touch(): void {
    this.preview = null;
    this.refused = null;
  }

  async askPreview(): Promise<void> {
    const { armed } = this;
    if (armed === null || this.wrong !== '') return;
    const params = { program: armed.program, parameters: this.parametersOf(armed) };
    const before = JSON.stringify(this.values);
    const outcome = await this.previewOf(params);
    if (this.armed !== armed || JSON.stringify(this.values) !== before) return;
    this.preview = outcome.ok ? outcome.value : null;
    this.refused = outcome.ok ? null : outcome.error;
  }

  /** With the records of an evaluation batch, without them where the hub does not take a plan. */
  private async previewOf(params: object): Promise<Outcome<Preview>> {
    const { control, run } = this.session;
    const plan = previewPlan(run);
    const ask = (asked: object): Promise<Outcome<Preview>> =>
      control.carryOut('intervention.preview', asked, previewSchema);
    if (plan === null) return ask(params);
    const outcome = await ask({ ...params, plan });
    const refused = !outcome.ok && /^plan\b/.test(outcome.error.where ?? '');
    return refused ? ask(params) : outcome;
  }

  async apply(): Promise<void> {
    const { armed } = this;
    if (armed === null || this.wrong !== '') return;
    const { name, program } = armed;
    const ttl = this.ttl.trim() === '' ? null : Number(this.ttl);
    const parameters = this.parametersOf(armed);
    const options = { name, program, parameters, ttl, keep: this.keep };
    const outcome = await interventionsOf(this.session).apply(options);
    if (!outcome.ok) {
      this.refused = outcome.error;
      return;
    }
    const { step, ranks } = outcome.value;
    this.applied = { name, step, ranks };
    if (this.armed === armed) this.disarm();
    this.refused = null;
  }

  private parametersOf({ check }: Armed): Readonly<Record<string, number>> {
    return Object.fromEntries(
      check.parameters.map(({ name }) => [name, Number(this.values[name])]),
    );
  }

  private wrongOf(): string {
    const { armed, ttl } = this;
    if (armed === null) return '';
    for (const parameter of armed.check.parameters) {
      const wrong = wrongValue(parameter, this.values[parameter.name] ?? '');
      if (wrong !== '') return wrong;
    }
    return /^\s*([1-9]\d{0,14}\s*)?$/.test(ttl) ? '' : 'Steps: a whole number from 1';
  }

  private hindranceOf(): string {
    const { connection, control, replay, run } = this.session;
    const { hindrance } = this.checker;
    if (replay !== null) return 'A recording checks no programs.';
    if (connection.kind !== 'open') return 'Not checked: the hub is not connected.';
    if (control.viewOnly || hindrance?.code === 'not_allowed') {
      return "Not checked: checking needs the run's token; this one only views.";
    }
    if (run === null) return 'Not checked: no trainer has connected yet.';
    if (hindrance?.code === 'unknown_method') return 'This hub knows no interventions.';
    return hindrance === null ? '' : `Not checked: ${hindrance.message}`;
  }
}
