// What the page's scripts share: elements, forms, charts, and the object that every widget is mounted with.
export as namespace Page; // a script says Page.Studio

declare global {
  interface Window {
    Studio: Studio;
  }
  type ReviewView = import('../widgets/review/js/review_view.js').ReviewView;
  type Spot = import('../widgets/review/js/shapes.js').Spot;
  type Values = Record<string, any>;
}

export type Child = string | Node | null | undefined | boolean | readonly Child[];
export type Attributes = Record<string, unknown>;

export interface ElementBuilder {
  (
    tag: 'svg' | 'path' | 'line' | 'text' | 'g' | 'rect' | 'circle' | 'polyline' | 'polygon' | 'image' | 'title',
    attributes?: Attributes,
    ...children: Child[]
  ): SVGElement;
  <K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes?: Attributes,
    ...children: Child[]
  ): HTMLElementTagNameMap[K];
}

export type Studio = typeof import('./studio.js').Studio;
export type Params = Record<string, unknown>;

export interface Failure {
  ok: false;
  error: string;
  status?: number;
}
/** What `get`, `post`, `postBytes` and `discard` come back with: they never throw. */
export type Answer<T> = (T & { ok: true }) | Failure;

export interface Line {
  name: string;
  points: Answers.Point[];
  colour?: string;
  dash?: boolean;
  thick?: boolean;
}
