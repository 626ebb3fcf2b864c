import type { AlarmRule } from '../../protocol/alarms';

/** The curve of an alarm, such as "rms of HiddenStates, L1-4". */
export function curveText(rule: AlarmRule): string {
  if (rule.scalar !== undefined) return rule.scalar;
  const parts = [
    numberText(rule),
    rule.parameter ?? '',
    rule.over === 'last' ? 'last token' : '',
    rule.over === 'largest' ? 'largest' : '',
    rule.direction === 'gradient' ? 'gradient' : '',
    rule.phase === 'eval' ? 'evaluation' : '',
    rule.mean_over ?? '',
    rule.prompts ?? '',
    rule.baseline === true ? 'from its baseline' : '',
    rule.layers === undefined ? '' : `L${rule.layers}`,
  ];
  return parts.filter((part) => part !== '').join(', ');
}

function numberText({ point = '', statistic, vector, column }: AlarmRule): string {
  if (statistic === undefined) return `${point} on ${vector ?? ''}`;
  if (statistic !== 'value') return `${statistic} of ${point}`;
  return column === undefined ? point : `${point}, column ${column}`;
}

/** The condition of an alarm, such as "above 5, 3 values in a row". */
export function testText(rule: AlarmRule): string {
  const times = rule.consecutive ?? 1;
  const row = times > 1 ? `, ${times} values in a row` : '';
  return `${conditionText(rule)}${row}`;
}

function conditionText(rule: AlarmRule): string {
  const { test, value, low, high, k, side, window, first } = rule;
  const limit = shown(value ?? 0);
  switch (test) {
    case 'above':
    case 'below':
      return `${test} ${limit}`;
    case 'rising':
    case 'falling':
      return `${test} by more than ${limit} a step over ${window ?? 0} values`;
    case 'range':
      return `outside ${shown(low ?? 0)} to ${shown(high ?? 0)}`;
    case 'sigma': {
      const values = first === undefined ? `last ${window ?? 0}` : `first ${first}`;
      const where = side === 'above' || side === 'below' ? side : 'from';
      const base = rule.baseline === true ? 'baseline' : `mean of the ${values} values`;
      return `more than ${shown(k ?? 0)} σ ${where} the ${base}`;
    }
    default:
      return 'NaN or infinite';
  }
}

function shown(value: number): string {
  return String(value).replace('-', '−');
}
