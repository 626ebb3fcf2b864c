// A picture of a part of the page: panels with their titles, legends, axes, maps and curves, and
// the texts of fields. Other controls are left out.

const kRatio = 2;
const kPadding = 12;
const kLineHeight = 18;
const kSkipped =
  '[role="toolbar"], [role="tooltip"], [data-no-export], input[type="range"], .visually-hidden';
const kPanels = 'section, [data-testid="token-strip"], [data-testid="plan-outcome"]';
/** The styles that set the position of a field's text. */
const kFieldStyles = ['font', 'letter-spacing', 'padding', 'tab-size', 'text-align', 'white-space'];

/** Draws a heading, and below it the content of `root`, as PNG. */
export async function pictureOf(
  root: HTMLElement,
  heading: readonly string[],
): Promise<Blob | null> {
  const box = frameOf(root);
  const style = getComputedStyle(document.body);
  const top = kPadding * 2 + heading.length * kLineHeight;
  const canvas = document.createElement('canvas');
  canvas.width = Math.ceil((box.width + 2 * kPadding) * kRatio);
  canvas.height = Math.ceil((box.height + top + kPadding) * kRatio);
  const context = canvas.getContext('2d');
  if (context === null) return null;
  context.scale(kRatio, kRatio);
  context.fillStyle = style.getPropertyValue('--panel');
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.textBaseline = 'middle';
  heading.forEach((line, index) => {
    context.font = `${index === 0 ? '600 13px' : '12px'} system-ui, sans-serif`;
    context.fillStyle = style.getPropertyValue(index === 0 ? '--ink' : '--ink-muted');
    context.fillText(line, kPadding, kPadding + (index + 0.5) * kLineHeight);
  });
  context.translate(kPadding - box.left, top - box.top);
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  paint(context, root);
  return new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
}

/** The box around all panels: toolbars beside them are left out. */
function frameOf(root: HTMLElement): DOMRect {
  const boxes = [...root.querySelectorAll(kPanels)].map((each) => each.getBoundingClientRect());
  if (boxes.length === 0) return root.getBoundingClientRect();
  const left = Math.min(...boxes.map((box) => box.left));
  const top = Math.min(...boxes.map((box) => box.top));
  const right = Math.max(...boxes.map((box) => box.right));
  const bottom = Math.max(...boxes.map((box) => box.bottom));
  return new DOMRect(left, top, right - left, bottom - top);
}

function paint(context: CanvasRenderingContext2D, element: Element): void {
  if (element.matches(kSkipped)) return;
  const box = element.getBoundingClientRect();
  const style = getComputedStyle(element);
  if (style.visibility === 'hidden' || style.display === 'none') return;
  if (element instanceof SVGSVGElement) {
    paintSvg(context, element);
    return;
  }
  context.save();
  context.globalAlpha *= Number(style.opacity);
  paintBox(context, box, style);
  if (style.overflowX !== 'visible') {
    context.beginPath();
    context.rect(box.left, box.top, box.width, box.height);
    context.clip();
  }
  if (element instanceof HTMLCanvasElement && element.width > 0 && element.height > 0) {
    context.imageSmoothingEnabled = false;
    context.drawImage(element, box.left, box.top, box.width, box.height);
  } else if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement) {
    paintField(context, element, box, style);
  } else if (element instanceof HTMLSelectElement) {
    paintText(context, element.selectedOptions[0]?.text ?? '', box, style);
  } else {
    paintMark(context, element, box);
    for (const child of element.childNodes) {
      if (child instanceof Element) paint(context, child);
      else if (child instanceof Text) paintTextNode(context, child, style);
    }
  }
  context.restore();
}

function paintBox(
  context: CanvasRenderingContext2D,
  box: DOMRect,
  { backgroundColor, borderRadius, outlineWidth, outlineStyle, outlineColor }: CSSStyleDeclaration,
): void {
  context.beginPath();
  context.roundRect(box.left, box.top, box.width, box.height, parseFloat(borderRadius) || 0);
  if (backgroundColor !== 'rgba(0, 0, 0, 0)') {
    context.fillStyle = backgroundColor;
    context.fill();
  }
  if (outlineStyle === 'none' || parseFloat(outlineWidth) === 0) return;
  context.strokeStyle = outlineColor;
  context.lineWidth = parseFloat(outlineWidth);
  context.stroke();
}

/** The mark before a legend's entry: a bar of the line's colour. */
function paintMark(context: CanvasRenderingContext2D, element: Element, box: DOMRect): void {
  const { content, backgroundColor, width, height } = getComputedStyle(element, '::before');
  const isMark = content !== 'none' && content !== 'normal' && parseFloat(width) > 0;
  if (!isMark || backgroundColor === 'rgba(0, 0, 0, 0)') return;
  const [w, h] = [parseFloat(width), parseFloat(height)];
  context.fillStyle = backgroundColor;
  context.fillRect(box.left, box.top + (box.height - h) / 2, w, h);
}

function paintTextNode(
  context: CanvasRenderingContext2D,
  node: Text,
  style: CSSStyleDeclaration,
): void {
  const text = node.data;
  if (text.trim() === '') return;
  const range = document.createRange();
  range.selectNodeContents(node);
  const boxes = range.getClientRects();
  if (boxes.length === 1) {
    paintText(context, collapsed(text, style), boxes[0], style);
    return;
  }
  // A text of several lines is drawn letter by letter, each letter at its position.
  for (let i = 0; i < text.length; i++) {
    range.setStart(node, i);
    range.setEnd(node, i + 1);
    const [box] = range.getClientRects();
    if (box !== undefined && box.width > 0) paintText(context, text[i], box, style);
  }
}

/** Draws the text of a field. A temporary element with the same styles gives the positions. */
function paintField(
  context: CanvasRenderingContext2D,
  field: HTMLInputElement | HTMLTextAreaElement,
  box: DOMRect,
  style: CSSStyleDeclaration,
): void {
  const copy = document.createElement('div');
  for (const name of kFieldStyles) copy.style.setProperty(name, style.getPropertyValue(name));
  const isLine = field instanceof HTMLInputElement;
  const isTick = isLine && field.type === 'checkbox';
  const tick = isTick && field.checked ? '☑' : '☐';
  const text = new Text(isTick ? tick : field.value);
  const places = {
    left: box.left + field.clientLeft - field.scrollLeft,
    top: box.top + field.clientTop - field.scrollTop,
    width: field.clientWidth,
  };
  for (const [name, pixels] of Object.entries(places)) copy.style.setProperty(name, `${pixels}px`);
  if (isLine)
    Object.assign(copy.style, { lineHeight: `${field.clientHeight}px`, paddingBlock: '0' });
  Object.assign(copy.style, { position: 'fixed', boxSizing: 'border-box' });
  copy.append(text);
  document.body.append(copy);
  paintTextNode(context, text, style);
  copy.remove();
}

function collapsed(text: string, { whiteSpace }: CSSStyleDeclaration): string {
  return whiteSpace.startsWith('pre') ? text : text.replace(/[ \t\n]+/g, ' ').trim();
}

function paintText(
  context: CanvasRenderingContext2D,
  text: string,
  box: DOMRect,
  { font, color }: CSSStyleDeclaration,
): void {
  context.font = font;
  context.fillStyle = color;
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.fillText(text, box.left, box.top + box.height / 2 + 0.5);
}

/** Draws paths, rectangles and lines, such as those of a histogram. */
function paintSvg(context: CanvasRenderingContext2D, svg: SVGSVGElement): void {
  for (const shape of svg.querySelectorAll<SVGGraphicsElement>('path, rect, line')) {
    const matrix = shape.getScreenCTM();
    if (matrix === null) continue;
    const { fill, stroke, strokeWidth } = getComputedStyle(shape);
    context.save();
    context.transform(matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f);
    const path = pathOf(shape);
    if (fill !== 'none') {
      context.fillStyle = fill;
      context.fill(path);
    }
    if (stroke !== 'none') {
      context.strokeStyle = stroke;
      context.lineWidth = parseFloat(strokeWidth);
      context.stroke(path);
    }
    context.restore();
  }
}

function pathOf(shape: SVGGraphicsElement): Path2D {
  if (shape instanceof SVGPathElement) return new Path2D(shape.getAttribute('d') ?? '');
  const path = new Path2D();
  if (shape instanceof SVGRectElement) {
    const { x, y, width, height } = shape.getBBox();
    path.rect(x, y, width, height);
  } else if (shape instanceof SVGLineElement) {
    path.moveTo(shape.x1.baseVal.value, shape.y1.baseVal.value);
    path.lineTo(shape.x2.baseVal.value, shape.y2.baseVal.value);
  }
  return path;
}
