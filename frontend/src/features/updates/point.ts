/** The point with a row for each parameter, once per step. */
export const kUpdatesPoint = 'Updates';
