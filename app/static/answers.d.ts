// What the routes answer, as far as the page reads it. One overload per route: the path says which answer comes.
import type { Group, Series, Values } from './types';

// ---- shared
export type Decision = 'normal' | 'abnormal' | 'unsure';
export interface Job {
  id: number;
  status: 'queued' | 'running' | 'paused' | 'interrupted' | 'failed' | 'cancelled' | 'done';
  verb: string;
  progress: number;
  message: string;
  error: string | null;
  wants: string;
  position: number;
  here: boolean;
  steps: string[];
}
export interface Status {
  studies: string[];
  job: Job | null;
  beside: Job | null;
  waiting: number;
  /** When something last came in, by study. */
  arrived: Record<string, string>;
  /** Studies that are read blind now, and the open reading session. */
  reading: { blind: string[]; session: { id: number; study: string } | null };
}
export interface Stage {
  title: string;
  state: 'done' | 'running' | 'waiting' | 'failed' | 'stopped';
  /** Seconds. */
  left: number;
  share: number;
}
export interface Plan {
  stages: Stage[];
  left: number;
  jobs: number[];
  scored: boolean;
}
export interface Next {
  kinds: Record<string, string>;
  guess: string | null;
  kept: string | null;
  scored: boolean;
  trained: boolean;
  /** Seconds that a first look takes. */
  look: number;
}

// ---- forms
export interface Field {
  key: string;
  kind: 'number' | 'integer' | 'range' | 'choice' | 'study' | 'several' | 'flag' | 'numbers' | 'text';
  label: string;
  help?: string;
  min: number;
  max: number;
  step: number;
  log?: boolean;
  options: string[];
  names?: any;
}
export interface Strong {
  title: string;
  form: Group[];
  defaults: Values;
}
export interface MedMixForms {
  strong: Record<string, Strong>;
  weak: { form: Group[]; presets: Record<string, Values> };
}
export interface Preset {
  name: string;
  version: number;
  strong: string;
  config: Values;
  built_in?: boolean;
}
export interface Probe {
  confusion: number[][];
  accuracy: number;
  chance: number;
  lesion_accuracy: number;
  survival: number | null;
  lost: number | null;
  near: { auroc_real: number; auroc_synthetic: number; distance: number } | null;
  words: { kind: string; text: string }[];
  encoder: string;
  images: number;
  seconds: number;
}
/** The head of a painted grid; its pixels follow as they are. */
export interface GridHead {
  rows: number;
  cols: number;
  side: number;
  names: string[];
  outlines: [number, number][][][][];
  sources: { n: number; m: number; donor: number; box: Rectangle; to: Rectangle }[];
  /** Width by height of the images before they were squeezed to squares; null where they differ. */
  aspect: number | null;
}
type Rectangle = [number, number, number, number];

// ---- runs
export interface Evaluation {
  auroc: number | null;
  ap: number | null;
  sensitivity: number | null;
  specificity: number | null;
  pixel_auroc: number | null;
  dice: number | null;
  pro: number | null;
}
export interface RunRow {
  id: string;
  kind: 'pretrain' | 'fit';
  name: string;
  /** Seconds until it is done; null where nothing is at it. */
  left: number | null;
  parent: string | null;
  method: string;
  status: string;
  created: string;
  seconds: number | null;
  note: string;
  archived: number;
  job: Job | null;
  latest: Record<string, number>;
  evaluation: Evaluation | null;
}
export interface Run extends Omit<RunRow, 'job' | 'latest' | 'evaluation'> {
  config: Values;
  summary: Values;
  code: string;
  device: string;
  packages: Record<string, string> | null;
}
export interface RunDetail {
  run: Run;
  data: { name: string; fingerprint: string | null } | null;
  job: Job | null;
  plan: { steps: number; epochs: number; per_epoch: number; images: number };
  alarm: string | null;
  confusion: { step: number; rows: number[][] } | null;
  log: { at: string; line: string }[];
  children: { id: string; name: string; status: string; evaluation: Evaluation | null }[];
  evaluation: Evaluation | null;
  series: Series;
  stride: number;
  last: number;
  reset: boolean;
}
export interface TrainingForms {
  form: Group[];
  encoder: Group[];
  weak: { form: Group[] };
  presets: Record<string, Values>;
  usual: string;
  objectives: Record<string, { title: string }>;
  detectors: Record<string, { title: string; form: Group[]; defaults: Values; lesions: Record<string, Values> }>;
  lesions: Record<string, string>;
  strong: Record<string, string>;
}
export interface DryRun {
  fits: boolean;
  message: string;
  seconds_step: number | null;
  seconds_epoch: number;
  seconds_total: number;
  steps: number;
  images: number;
  memory: number;
  device: string;
}
export interface Compared {
  runs: { id: string; name: string; method: string; status: string }[];
  series: Series[];
  differences: { key: string; values: unknown[] }[];
}

// ---- review
export interface ScoredRun {
  id: string;
  name: string;
  method: string;
  title: string;
  encoder: string | null;
  created: string;
  /** Whether the run is the newest of its detector. */
  first: boolean;
}
export interface Remark {
  words: string;
  more: string;
  ok: boolean;
}
export interface Finding {
  id: number;
  label: string;
  reader: string;
  created: string;
  mask_version: number | null;
  box: [number, number, number, number] | null;
}
export interface Reading {
  percentile: number | null;
  flagged: boolean;
  has_map: boolean;
  words: string;
  steady?: Remark | null;
  members?: Remark | null;
}
export interface MaskVersion {
  id: number;
  version: number;
  source: 'import' | 'hand' | 'run';
  reader: string | null;
  created: string;
  note: string;
}
export interface CaseDetail {
  id: number;
  v: string;
  width: number;
  height: number;
  bits: number;
  name: string;
  blind: boolean;
  mine: { decision: Decision; comment: string; stage: string; active: number }[];
  frame?: number;
  frames?: number;
  recording?: number;
  modality?: string;
  spacing?: { x: number; y: number; at: 'patient' | 'detector' } | null;
  readings?: Record<string, Reading | null>;
  masks?: MaskVersion[];
  findings?: Finding[];
  others?: { reader: string; decision: Decision }[];
}
export interface Ahead {
  id: number;
  v: string;
  bits: number;
}
export interface WorklistRow {
  id: number;
  v: string;
  name: string;
  decision: Decision | null;
  percentile?: number | null;
  flagged?: number | null;
  disagreement?: number;
}
export type Counts = Record<'total' | 'read' | 'unread' | Decision, number>;
export interface ReviewSetup {
  study: string;
  reader: string;
  rights: { role: string };
  /** Of the studio. */
  version: string;
  blinded: boolean;
  session: { id: number; blind: number; neutral: number } | null;
  runs: ScoredRun[];
  labels: string[];
  keys: Record<string, string>;
  show: Values;
}
export interface SessionSummary {
  session: { id: number; blind: number; created: string; ended: string };
  cases: number;
  read: number;
  seconds: { median: number; low: number; high: number; total: number } | null;
  decisions: Record<Decision, number>;
  changed: number;
  point: { sensitivity: Share; specificity: Share } | null;
  detector: { sensitivity: Share; specificity: Share } | null;
  agreement: { with: string; n: number; agreement: number | null; kappa: number | null; low: number; high: number }[];
}
export interface Frame {
  id: number;
  frame: number;
  percentile: number | null;
  score: number | null;
}
export interface SavedMask {
  mask: number;
  version: number;
  pixels: number;
  masks: MaskVersion[];
  findings?: Finding[];
}

// ---- results
export interface Share {
  value: number | null;
  low: number;
  high: number;
  hits: number;
  n: number;
}
export interface OperatingPoint {
  sensitivity: Share;
  specificity: Share;
  ppv: Share;
  npv: Share;
  auroc: number | null;
  roc: [number, number][] | null;
  point: [number, number];
}
export interface Promised {
  guarantee: string;
  threshold: number | null;
  normals: number;
  flagged: number;
  share: { value: number; low: number; high: number };
}
export interface Kappa {
  kappa: number | null;
  low: number | null;
  high: number | null;
}
export interface Agreement {
  pairs: (Kappa & { readers: string[]; agreement: number; n: number; confusion: number[][] })[];
  fleiss: (Kappa & { readers: number; n: number }) | null;
  differ: {
    case: number;
    name: string;
    decisions: Record<string, string>;
    adjudication: { reader: string; decision: string } | null;
  }[];
}
export type Minds = Record<
  string,
  Record<'both' | 'to_abnormal' | 'to_normal' | 'to_unsure' | 'for_better' | 'for_worse', number>
>;
type Figure = 'auroc' | 'pixel_auroc' | 'dice' | 'pro';
export type ComparedRow = {
  run: string | null;
  title: string;
  name: string;
  encoder: string | null;
  best: string[];
} & {
  [F in Figure]: number | null;
} & { [F in `${Figure}_ci`]?: [number, number] | null };
export interface Sizes {
  points: { name: string; size: number; dice: number }[];
  groups: { from: number; to: number; dice: number; sd: number; n: number }[];
}
export interface PanelCase {
  id: number;
  name: string;
  label: string;
  flagged: boolean;
  right: boolean;
  score: number;
  percentile: number;
}
export interface Verdict {
  run: string;
  title: string;
  level: 'good' | 'warn' | 'bad' | 'none';
  words: string;
  advice: string;
}
export interface Results {
  verdicts: Verdict[];
  runs: ScoredRun[];
  run: string | null;
  agreement: Agreement;
  minds: Minds;
  blind: boolean;
  labels: OperatingPoint;
  readers: OperatingPoint;
  promise: Promised | null;
  sizes: Sizes;
  compared: ComparedRow[];
  panel: PanelCase[];
}

// ---- studies
export type Split = 'train' | 'holdout' | 'test';
export type Label = 'normal' | 'abnormal' | 'unknown';
export interface Report {
  study: string;
  accepted: number;
  rejected: { path: string; reason: string }[];
  duplicates: { test: string; train: string; kind: string }[];
  burned_in?: string[];
  patients?: number;
  straddling?: { train: string[]; test: string[] }[];
  /** The first new case, where cases were added to a study. */
  first?: number | null;
}
export interface Overview {
  study: { name: string; cases: number; folder: string };
  table: Record<Split, Record<Label, number>>;
  masks: Record<Split, number>;
  sizes: [string, number][];
  size_count: number;
  bits: number[];
  modalities: string[];
  report: Report | null;
}
export interface SampleCase {
  id: number;
  name: string;
  split: Split;
  label: Label;
  width: number;
  height: number;
}
export interface ImportState {
  state: 'running' | 'done' | 'failed';
  done: number;
  total: number;
  error: string;
  report: Report;
}
export interface Watch {
  folder: string;
  run: string | null;
  active: boolean;
  copy: boolean;
  message: string;
  counts: Partial<Record<'waiting' | 'ready' | 'taken' | 'double' | 'failed', number>>;
  job: Job | null;
  left_out: { name: string; note: string }[];
}
export interface Dealt {
  readers: { name: string; role: string; assigned: number; read: number }[];
  free: number;
  cases: number;
}
/** A run or a study in the bin. */
export interface Binned {
  kind: 'run' | 'study';
  id: string;
  name: string;
  study: string;
  binned: string;
  until: string;
}
export interface Managed extends Dealt {
  watch: Watch | null;
  runs: { id: string; name: string; created: string }[];
  labels: string[];
}

// ---- clusters
export interface EncoderRun {
  id: string;
  name: string;
  status: string;
  epochs: number[];
}
export interface MapConfig {
  method: 'tsne' | 'umap' | 'pca';
  feature: 'centred' | 'projected' | 'backbone' | 'patch';
  seed: number;
}
export interface MapRow {
  key: string;
  ready: boolean;
  config: MapConfig;
  run_name: string;
  epochs: number[];
  points: number;
  job_status: string | null;
  progress: number;
  message: string;
}
export interface MapEpoch {
  epoch: number;
  centres: [number, number][] | null;
  numbers: Record<string, Record<string, any>>;
  trustworthiness: number | null;
}
export interface MapAbout {
  key: string;
  config: MapConfig;
  run_name: string;
  epochs: MapEpoch[];
  points: { case_id: number[]; lesions: number[]; place?: number[] };
  fits: { id: string; name: string }[];
}
export interface Column {
  name: string;
  title: string;
  /** Categories: a code per point and their names. */
  codes?: number[];
  names?: string[];
  /** Numbers: one per point, null where unknown. */
  values?: (number | null)[];
}
export interface SavedView {
  id: number;
  name: string;
  state: any;
}
export interface PlacedSet {
  key: string;
  ready: boolean;
  title: string;
  names: string[];
  cases: number[];
  far: boolean[][];
  left_out: unknown[];
  job_status: string | null;
  progress: number;
  message: string;
  /** Read apart, once the set is ready. */
  coords: Float32Array;
}
export interface Neighbour {
  point: number;
  distance: number;
}
export interface PointDetail {
  point: number;
  case_id: number;
  lesions: number;
  group: string;
  case: { name: string; split?: string; tags: string[] } | null;
  outline: [number, number][][];
  reviews: { reader: string; decision: Decision; comment: string }[];
  far?: boolean;
  box?: [number, number, number, number] | null;
  reading?: {
    run: string;
    has_map: boolean;
    percentile_roi: number | null;
    score_roi: number | null;
    flagged_roi: boolean;
  } | null;
}
export interface PlacedDetail {
  name: string;
  title: string;
  case_id: number;
  far: boolean;
  neighbours: Neighbour[];
}

// ---- tour
export interface TourAct {
  tab?: string;
  click?: string;
  unless?: string;
  gone?: boolean;
  tick?: string;
  untick?: string;
  set?: string;
  value?: string;
  slide?: string;
  through?: number[];
  over?: number;
  wait?: string;
  there?: string;
  found?: boolean;
  press?: string[];
  seconds?: number;
}
export interface TourStep {
  tab: string;
  title: string;
  text: string;
  at: string;
  do?: TourAct[];
  once?: boolean;
  seconds: number;
}
export interface TourState {
  ready: boolean;
  /** The case with the clearest lesion. */
  found: number | null;
  job: Job | null;
}

type To<T> = Promise<T>;
/** Throws an Error whose message is a sentence for the reader. */
export interface Api {
  (path: '/api/status'): To<Status>;
  (path: `/api/status/plan?study=${string}`): To<Plan>;
  (path: `/api/study/import/${string}/stop` | `/api/clusters/maps/${string}/stop`, body: object): To<object>;
  (path: `/api/status/stop/${number}`, body: object): To<{ status: string }>;
  (path: `/api/study/${string}/next`): To<Next>;
  (path: `/api/study/${string}/kind`, body: { kind: string }): To<{ labels: string[] }>;
  (path: '/api/medmix/forms'): To<MedMixForms>;
  (path: '/api/medmix/donors'): To<{ studies: { id: string; name: string }[] }>;
  (path: '/api/medmix/presets'): To<{ presets: Preset[] }>;
  (path: '/api/medmix/presets', body: Values): To<{ preset: Preset }>;
  (path: '/api/medmix/presets/read', body: { text: string }): To<{ preset: Preset }>;
  (path: '/api/medmix/probe', body: Values): To<Probe>;
  (path: '/api/training/forms'): To<TrainingForms>;
  (path: '/api/training/dry', body: Values): To<DryRun>;
  (path: '/api/training/start', body: Values): To<{ run: string }>;
  (path: `/api/training/runs?${string}`): To<{ runs: RunRow[] }>;
  (path: `/api/training/compare?${string}`): To<Compared>;
  (path: `/api/training/run/${string}?after=${number}&stride=${number}`): To<RunDetail>;
  (path: `/api/training/run/${string}/${string}`, body: Values): To<{ run: string; bytes: number }>;
  (path: `/api/results/${string}`): To<Results>;
  (path: `/api/export/${string}/warning`): To<{ text: string; cases: number[] }>;
  (path: '/api/export/bundle', body: Blob): To<{ study: string; rows: { cases: number; reviews: number } }>;
  (path: `/api/study/import/${string}`): To<ImportState>;
  (path: '/api/study/import' | '/api/study/demo' | `/api/study/${string}/add`, body: Values): To<{ task: string }>;
  (path: '/api/study/drop', body: Values): To<{ drop: string }>;
  (path: `/api/study/${string}/overview`): To<Overview>;
  (path: `/api/study/${string}/sample?${string}`): To<{ cases: SampleCase[] }>;
  (path: `/api/study/case/${number}/outlines`): To<Record<'roi' | 'lesion', [number, number][][]>>;
  (path: '/api/bin'): To<{ rows: Binned[]; days: number }>;
  (path: `/api/bin/${'run' | 'study'}/${string}/restore`, body: Values): To<unknown>;
  (path: '/api/manage'): To<{ administer: boolean; role: string }>;
  (path: `/api/manage/${string}/watch`, body?: Values): To<{ watch: Watch | null }>;
  (path: `/api/manage/${string}`): To<Managed>;
  (path: `/api/clusters/runs?${string}`): To<{ runs: EncoderRun[] }>;
  (path: `/api/clusters/maps?${string}`): To<{ maps: MapRow[]; views: SavedView[] }>;
  (path: '/api/clusters/maps', body: Values): To<{ key: string; ready: boolean }>;
  (path: `/api/clusters/maps/${string}/columns${string}`): To<{ columns: Column[] }>;
  (path: `/api/clusters/maps/${string}/placed`): To<{ sets: PlacedSet[] }>;
  (path: `/api/clusters/maps/${string}/placed`, body: Values): To<{ key: string; ready: boolean }>;
  (path: `/api/clusters/maps/${string}/points/${number}/neighbours?${string}`): To<{ neighbours: Neighbour[] }>;
  (path: '/api/tour/steps'): To<{ steps: TourStep[] }>;
  (path: '/api/tour'): To<TourState>;
  (path: '/api/tour/prepare' | '/api/tour/reset', body: Values): To<TourState>;
  (path: string, body?: unknown, options?: RequestInit): To<any>;
}

export interface Failure {
  ok: false;
  error: string;
  status?: number;
}
/** What `get`, `post` and `postBytes` come back with: they never throw. */
export type Answer<T> = (T & { ok: true }) | Failure;
type Params = Record<string, unknown>;
type Entered = { case: CaseDetail | null; ahead: Ahead[] };
export interface Get {
  (path: '/api/review/open', params: Params): Promise<Answer<ReviewSetup>>;
  (path: '/api/review/list', params: Params): Promise<Answer<{ rows: WorklistRow[]; cursor: unknown[] | null }>>;
  (path: '/api/review/counts', params: Params): Promise<Answer<Counts>>;
  (path: '/api/review/step', params: Params): Promise<Answer<Entered>>;
  (
    path: '/api/reading',
    params: Params,
  ): Promise<
    Answer<{
      choices: { name: string; title: string; cases: number }[];
      over: { id: number; blind: number; cases: number; created: string }[];
      blind: boolean;
    }>
  >;
  (path: `/api/reading/${number}/summary`, params?: Params): Promise<Answer<SessionSummary>>;
  (path: '/api/review/drafts', params: Params): Promise<Answer<{ drafts: { id: number; updated: string }[] }>>;
  (path: `/api/review/case/${number}`, params: Params): Promise<Answer<{ case: CaseDetail; ahead: Ahead[] }>>;
  (path: `/api/review/timeline/${number}`, params: Params): Promise<Answer<{ frames: Frame[] }>>;
  (path: `/api/case/${number}/nearest`, params: Params): Promise<Answer<{ cases: (Ahead & { name: string })[] }>>;
  (path: `/api/case/${number}/explain`, params: Params): Promise<Answer<Explained>>;
}
/** Boxes are in parts of the images' width and height. */
export interface Explained {
  box: Rectangle;
  there: Rectangle;
  case: { id: number; name: string; v: string; width: number; height: number };
  distance: number;
  usual: { median: number; largest: number; count: number } | null;
}
export interface Post {
  (path: '/api/review/decide', body: Params): Promise<Answer<{ next: CaseDetail | null; ahead: Ahead[] }>>;
  (
    path: '/api/review/undo' | '/api/review/redo',
    body: Params,
  ): Promise<Answer<{ case: number; decision: Decision | null; next: CaseDetail }>>;
  (path: `/api/review/restore/${number}`): Promise<Answer<SavedMask>>;
  (path: '/api/review/finding', body: Params): Promise<Answer<{ findings: Finding[] }>>;
  (path: '/api/reading/start' | '/api/reading/end', body: Params): Promise<Answer<{ session: number }>>;
  (path: '/api/review/settings' | '/api/review/threshold', body: Params): Promise<Answer<unknown>>;
}
export interface PostBytes {
  (path: `/api/review/mask/${number}`, params: Params, content: Uint8Array): Promise<Answer<SavedMask>>;
  (path: `/api/review/draft/${number}`, params: Params, content: Uint8Array): Promise<Answer<unknown>>;
}

export interface ReportSeed {
  seed: number;
  fit: string | null;
  encoder: string | null;
}
export interface ReportRow {
  label: string;
  values: Record<string, { mean: number; deviation: number | null }>;
  paper: Record<string, number>;
  seeds: ReportSeed[];
  seconds: number | null;
  collapsed: number;
  failed: string;
}
export interface ReportTable {
  name: string;
  title: string;
  heads: { metric: string; title: string }[];
  rows: ReportRow[];
}
export interface ReportBoard {
  choices: { tables: { name: string; title: string }[]; budgets: string[] };
  tables: ReportTable[];
  done: number;
  wanted: number;
  job: { id: number; status: string; progress: number; message: string } | null;
  files: string[];
  made: string | null;
  beside: { dataset: string; own: boolean };
}
