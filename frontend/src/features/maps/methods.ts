/** How the trainer reduces a tile without an expression. */
export const kMethods = ['mean', 'sum', 'absmax'] as const;
/** The choice of an expression in place of one of these methods. */
export const kExpression = 'expression';
