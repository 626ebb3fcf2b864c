import { untrack } from 'svelte';
import {
  type Parameter,
  type Preview,
  previewSchema,
  type ProgramCheck,
  programCheckSchema,
} from '../../protocol/interventions';
import { type HubError, kLogitsPoint } from '../../protocol/messages';
import { type BeforeAfterRead, beforeAfterOf } from './before_after';
import { accessOf } from '../../core/session/access';
import type { Session } from '../../core/session/session';
import { expressionErrorOf } from '../../protocol/expression_error';
import type { Outcome } from '../../core/session/controller.svelte';
import { interventionsOf } from './interventions.svelte';
import { LiveCheck } from '../../core/session/live_check.svelte';
import { previewTexts } from './predictions';
import { previewPlan } from './preview_plan';
import { readRecords } from './preview_records';
import { programOf, wrongValue } from './program_words';
import { fitsAddress } from '../../core/session/url_state';

const kFree = 'Nobody holds control: Preview, Apply and the sliders claim it.';
const kReplayed = 'A recording does not run the model. These are the programs of the recorded run.';
const kNoName = 'program';

/** A program with its parameters, as a preview or an apply sends it. */
interface Asked {
  readonly program: unknown;
  readonly parameters: Readonly<Record<string, number>>;
}

/** A preview: the program and the answer. */
export interface Previewed {
  readonly name: string;
  readonly asked: string;
  readonly answer: Preview;
  /** The step from which the program is in force; null if it was not applied after the preview. */
  readonly applied: number | null;
}

/** The draft of an intervention: typed, checked, previewed, applied. */
export class ProgramDraft {
  readonly checker: LiveCheck<{ readonly program: unknown }, ProgramCheck>;
  /** Typed values of the parameters that differ from the text. `ttl` is the typed number of steps. */
  values = $state<Record<string, string>>({});
  ttl = $state('');
  keep = $state(false);
  /** The last preview, until the next preview or another run. */
  previewed = $state.raw<Previewed | null>(null);
  /** The layer whose tiles the maps of a preview show; null: the last captured layer. */
  previewLayer = $state<number | null>(null);
  /** The index of the text whose predictions are shown. */
  previewText = $state(0);
  /** The last program that this page has applied, and the step from which it is in force. */
  applied = $state.raw<{ name: string; step: number; ranks: number } | null>(null);

  readonly access = $derived.by(() => accessOf(this.session, kFree, kReplayed));
  readonly text = $derived.by(() => this.session.view.program);
  readonly name = $derived.by(() => this.session.view.programName.trim() || kNoName);
  readonly isEmpty = $derived(this.text.trim() === '');
  /** The text is too long for the URL: a reload loses it. */
  readonly isTooLong = $derived.by(() => !fitsAddress(this.session.view, 'program'));
  readonly error = $derived.by((): HubError | null => this.checker.error);
  readonly found = $derived(
    this.error === null ? null : expressionErrorOf(this.error.message, this.error.where),
  );
  /** The result of the last check that found no error. */
  readonly check = $derived.by(() => this.checker.answered?.result ?? null);
  readonly isFine = $derived.by(() => this.checker.fresh && this.checker.error === null);
  /** The reason why the draft is not checked; '' if it is checked. */
  readonly hindrance = $derived.by(() => this.hindranceOf());
  /** The error in a typed value or in the number of steps; '' if there is no error. */
  readonly wrong = $derived.by(() => this.wrongOf());
  /** The draft can be previewed and applied. */
  readonly isReady = $derived(this.isFine && !this.access.readOnly && this.wrong === '');
  /** The previewed program or its values differ from the editor. */
  readonly isStale = $derived.by(() => this.previewed?.asked !== JSON.stringify(this.asked()));

  private readonly records = $derived(readRecords(this.previewed?.answer.records));
  /** The maps of the preview; null if its answer has no records. */
  readonly beforeAfter = $derived.by((): BeforeAfterRead | null => {
    if (this.records === null) return null;
    if ('reason' in this.records) return { maps: null, reason: this.records.reason };
    return beforeAfterOf(this.records.off, this.records.on);
  });
  /** The texts with their predictions, without and with the program. */
  readonly texts = $derived.by(() => {
    const flag = this.session.run?.points.find(({ name }) => name === kLogitsPoint)?.flag;
    if (flag === undefined || this.records === null || 'reason' in this.records) return [];
    return previewTexts(this.records.off, this.records.on, flag);
  });

  /** The error of the last preview or apply, if it was refused. */
  refused = $state.raw<HubError | null>(null);
  /** The session and the run that check the draft. */
  private trainer = '';
  /** The run of the preview. */
  private run = '';

  constructor(private readonly session: Session) {
    this.checker = new LiveCheck(session.link, 'intervention.check', programCheckSchema);
  }

  dispose(): void {
    this.checker.dispose();
  }

  /** Asks the trainer to check the current draft. A replay has no trainer. */
  follow(): void {
    const { text, isEmpty } = this;
    const { session, viewOnly } = this.session.control;
    const { run, replay } = this.session;
    const canAsk = session !== '' && run !== null && replay === null;
    const trainer = `${session}/${run?.id ?? ''}`;
    const asked = canAsk && !viewOnly && !isEmpty ? { program: programOf(text) } : null;
    untrack(() => {
      if (trainer !== this.trainer) this.checker.restart();
      if (run !== null && run.id !== this.run) this.previewed = null;
      this.trainer = trainer;
      this.run = run?.id ?? this.run;
      this.checker.check(asked);
    });
  }

  /** Takes a new text. The typed values are dropped, because the text has values. */
  write(text: string): void {
    this.refused = null;
    this.values = {};
    this.session.show({ program: text });
  }

  rename(name: string): void {
    this.session.show({ programName: name });
  }

  take(name: string, text: string): void {
    this.rename(name);
    this.write(text);
  }

  valueOf({ name, value }: Parameter): string {
    return this.values[name] ?? String(value);
  }

  setValue(name: string, typed: string): void {
    this.values = { ...this.values, [name]: typed };
    this.refused = null;
  }

  async askPreview(): Promise<void> {
    const { name } = this;
    const asked = this.isReady ? this.asked() : null;
    if (asked === null || this.session.control.waits('')) return;
    const outcome = await this.previewOf(asked);
    this.refused = outcome.ok ? null : outcome.error;
    if (!outcome.ok) return;
    this.previewed = { name, asked: JSON.stringify(asked), answer: outcome.value, applied: null };
  }

  /**
   * Asks for a preview with records of an evaluation batch and the prompts; without records if the hub
   * refuses the plan.
   */
  private async previewOf(params: Asked): Promise<Outcome<Preview>> {
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
    const { name } = this;
    const asked = this.isReady ? this.asked() : null;
    if (asked === null || this.session.control.waits('')) return;
    const ttl = this.ttl.trim() === '' ? null : Number(this.ttl);
    const options = { name, ...asked, ttl, keep: this.keep };
    const outcome = await interventionsOf(this.session).apply(options);
    this.refused = outcome.ok ? null : outcome.error;
    if (!outcome.ok) return;
    const { step, ranks } = outcome.value;
    this.applied = { name, step, ranks };
    const { previewed } = this;
    if (previewed?.asked === JSON.stringify(asked))
      this.previewed = { ...previewed, applied: step };
  }

  /** The last checked program with its values; null if no program was checked. */
  private asked(): Asked | null {
    const { answered } = this.checker;
    if (answered === null) return null;
    const values = answered.result.parameters.map(
      (parameter) => [parameter.name, Number(this.valueOf(parameter))] as const,
    );
    return { program: answered.asked.program, parameters: Object.fromEntries(values) };
  }

  private wrongOf(): string {
    for (const parameter of this.check?.parameters ?? []) {
      const wrong = wrongValue(parameter, this.valueOf(parameter));
      if (wrong !== '') return wrong;
    }
    return /^\s*([1-9]\d{0,14}\s*)?$/.test(this.ttl) ? '' : 'Steps: a whole number from 1';
  }

  private hindranceOf(): string {
    const { connection, control, replay, run } = this.session;
    const { hindrance } = this.checker;
    if (replay !== null) return 'Not checked: a recording cannot run programs.';
    if (connection.kind !== 'open') return 'Not checked: the hub is not connected.';
    if (control.viewOnly || hindrance?.code === 'not_allowed') {
      return "Not checked: the check needs the run's token. This token allows only viewing.";
    }
    if (run === null) return 'Not checked: no trainer has connected yet.';
    if (hindrance?.code === 'unknown_method') return 'This hub does not support interventions.';
    return hindrance === null ? '' : `Not checked: ${hindrance.message}`;
  }
}
