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

/** Settings that MedMix hands over to Training. */
export interface Handed {
  strong: string;
  config: Record<string, unknown>;
  weak: Record<string, unknown>;
  preset: string;
}

export interface Studio {
  readonly study: string | null;
  readonly tab: string | null;
  readonly started: boolean;
  handed: Handed | null;
  importing: boolean;
  byHand: boolean;
  /** What jobs make for the open study; null before it was asked for. */
  readonly plan: Answers.Plan | null;
  /** Returns a function that stops listening. */
  on(event: string, fn: (detail: any) => void): () => void;
  /** Asks the server how jobs, sessions and studies stand. */
  renewStatus(): Promise<void>;
  emit(event: string, detail?: unknown): void;
  setStudy(id: string | null): void;
  chooseStudy(id: string | null): void;
  bridge(props: { value: string }, trigger: (event: string) => void): void;
  openTab(name: string): void;
  openCase(id: number): void;
  /** A run in the Training tab. */
  openRun(id: string): void;
  /** The cases as a detector's run reads them, in the Review tab. */
  openReadings(run: string): void;
  mount(root: HTMLElement, module: string, props: unknown): Promise<void>;
  shown(element: HTMLElement): boolean;
}

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
