import type { Feature } from '../../core/registry/feature';
import { alarmBookOf } from '../../ui/alarms/alarm_book.svelte';
import AlarmStrip from './alarm_strip.svelte';
import AlarmsTool from './alarms_tool.svelte';

/** The alarms of the run, which the hub keeps. Charts open the dialog with `ui/alarms/alarm_button`. */
export const kAlarms: Feature = {
  banners: [AlarmStrip],
  pageTools: [AlarmsTool],
  commandsOf: (session) => [
    { id: 'alarms', group: 'Run', text: 'Alarms', run: () => alarmBookOf(session).open() },
  ],
  start: alarmBookOf,
};
