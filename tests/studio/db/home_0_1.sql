-- The database of a home as version 0.1.0 (commit b531385) leaves it: its twelve migrations, one study, an untrained
-- encoder, a scored PaDiM, reviews, a watched folder, two waiting jobs and a map. {home} is the home's folder.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE IF NOT EXISTS "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO _sqlite_migrations VALUES(1,'studio','0001_first_tables','2026-11-21 15:31:13.180199+00:00');
INSERT INTO _sqlite_migrations VALUES(2,'studio','0030_presets','2026-11-21 15:31:13.180561+00:00');
INSERT INTO _sqlite_migrations VALUES(3,'studio','0200_review_room','2026-11-21 15:31:13.207753+00:00');
INSERT INTO _sqlite_migrations VALUES(4,'studio','0210_events_from_elsewhere','2026-11-21 15:31:13.208523+00:00');
INSERT INTO _sqlite_migrations VALUES(5,'studio','0220_burned_in_text','2026-11-21 15:31:13.223506+00:00');
INSERT INTO _sqlite_migrations VALUES(6,'studio','0220_worklist_facts','2026-11-21 15:31:13.230366+00:00');
INSERT INTO _sqlite_migrations VALUES(7,'studio','0230_watched_folders','2026-11-21 15:31:13.231027+00:00');
INSERT INTO _sqlite_migrations VALUES(8,'studio','0240_slices_of_volumes','2026-11-21 15:31:13.245613+00:00');
INSERT INTO _sqlite_migrations VALUES(9,'studio','0300_cluster_maps','2026-11-21 15:31:13.246056+00:00');
INSERT INTO _sqlite_migrations VALUES(10,'studio','0301_cluster_views','2026-11-21 15:31:13.246321+00:00');
INSERT INTO _sqlite_migrations VALUES(11,'studio','0302_cluster_placed','2026-11-21 15:31:13.246591+00:00');
INSERT INTO _sqlite_migrations VALUES(12,'studio','0310_job_lanes','2026-11-21 15:31:13.247816+00:00');
CREATE TABLE studies (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, created TEXT NOT NULL, folder TEXT, layout TEXT,
  config TEXT NOT NULL DEFAULT '{}', fingerprint TEXT);
INSERT INTO studies VALUES('old','old','2026-11-21T15:31:13.592Z','/data/colon','plain','{"copied": true, "holdout_fraction": 0.25, "video": {"every": null, "per_second": 1.0}}','c7d02a38aee0d91d2e23beebab3f42173c546f65080be6e63de03671b3c78a07');
CREATE TABLE cases (
  id INTEGER PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, name TEXT NOT NULL,
  path TEXT NOT NULL, frame INTEGER NOT NULL DEFAULT 0,
  split TEXT NOT NULL CHECK (split IN ('train', 'holdout', 'test')),
  label TEXT NOT NULL CHECK (label IN ('normal', 'abnormal', 'unknown')),
  width INTEGER, height INTEGER, bits INTEGER, modality TEXT, sha256 TEXT, phash TEXT,
  "row" INTEGER NOT NULL, added TEXT NOT NULL, tags TEXT NOT NULL DEFAULT '[]', burned_in INTEGER, series TEXT, place REAL, slice INTEGER,
  UNIQUE (study, path, frame), UNIQUE (study, "row"));
INSERT INTO cases VALUES(1,'old','n000.png','{home}/files/old/train/normal/n000.png',0,'train','normal',64,48,8,NULL,'e9699f4b6edbb4014cb188fb691bea4450ff6cac33cb0aae9e942fa82104b90a','bc7e28359f85506a',0,'2026-11-21T15:31:13.612Z','[]',0,NULL,NULL,NULL);
INSERT INTO cases VALUES(2,'old','n001.png','{home}/files/old/train/normal/n001.png',0,'train','normal',64,48,8,NULL,'d3a51777998b1e0c2fa4ffac8aae5197db2b841feffb91694538a22d6467c5e4','ad6bd68a98a72358',1,'2026-11-21T15:31:13.613Z','[]',0,NULL,NULL,NULL);
INSERT INTO cases VALUES(3,'old','n002.png','{home}/files/old/train/normal/n002.png',0,'train','normal',64,48,8,NULL,'6d5a40b42a38948afe6ac4070526d2aa589f047a5342351f17ec35248697a516','84e90c5d7d17f0e8',2,'2026-11-21T15:31:13.633Z','[]',0,NULL,NULL,NULL);
INSERT INTO cases VALUES(4,'old','n003.png','{home}/files/old/train/normal/n003.png',0,'train','normal',64,48,8,NULL,'44f0b5155ed105e9dade4f3f331f4c7cfdc0b6f5e8513a79d7bceef1eabf7808','97434b68266bf594',3,'2026-11-21T15:31:13.634Z','[]',0,NULL,NULL,NULL);
INSERT INTO cases VALUES(5,'old','n004.png','{home}/files/old/train/normal/n004.png',0,'train','normal',64,48,8,NULL,'a31db58c00fb0525262a3be9d4e479ab4d3b8a2a2dcb75a7a271f6634c667732','f0c5f01da3db4e24',4,'2026-11-21T15:31:13.634Z','[]',0,NULL,NULL,NULL);
INSERT INTO cases VALUES(6,'old','n006.png','{home}/files/old/train/normal/n006.png',0,'train','normal',64,48,8,NULL,'7f4265e25c15e8fb6adb6536ce9df06b2c3ebf11e0ff04e08c99b942a562677d','a6590adab4ce5b31',5,'2026-11-21T15:31:13.634Z','[]',0,NULL,NULL,NULL);
INSERT INTO cases VALUES(7,'old','n005.png','{home}/files/old/train/normal/n005.png',0,'holdout','normal',64,48,8,NULL,'a75213c04abdbfe7ec3dfebf281d85c1374d27d81a6245c183017e1e93d92f5e','e92df02c79c1863e',6,'2026-11-21T15:31:13.635Z','[]',0,NULL,NULL,NULL);
INSERT INTO cases VALUES(8,'old','n007.png','{home}/files/old/train/normal/n007.png',0,'holdout','normal',64,48,8,NULL,'ca2f8416e8bd7419ec3aca31f99f19b6b2da772f45e5ae0f0f67014e1a7da9bd','c2de7d7c32e3801c',7,'2026-11-21T15:31:13.635Z','[]',0,NULL,NULL,NULL);
INSERT INTO cases VALUES(9,'old','t000.png','{home}/files/old/test/normal/t000.png',0,'test','normal',64,48,8,NULL,'c6579ce5e9a23b383c0b60364c065882a1c9edae27dc89da6aec152601f24548','a0389bed3441cbbe',8,'2026-11-21T15:31:13.635Z','[]',0,NULL,NULL,NULL);
INSERT INTO cases VALUES(10,'old','t001.png','{home}/files/old/test/normal/t001.png',0,'test','normal',64,48,8,NULL,'9f39818503cc132e17c6c858ef903e90174e268eab351338889d53c10a2d670d','ae7b93e1c95a20a5',9,'2026-11-21T15:31:13.636Z','[]',0,NULL,NULL,NULL);
INSERT INTO cases VALUES(11,'old','a000.png','{home}/files/old/test/abnormal/a000.png',0,'test','abnormal',64,48,8,NULL,'be55cf06df2e8c41f35c0d4681907810aa2ce980f75f2720c1da2002c8a360d8','cc7b39c7503931b1',10,'2026-11-21T15:31:13.636Z','[]',0,NULL,NULL,NULL);
INSERT INTO cases VALUES(12,'old','a001.png','{home}/files/old/test/abnormal/a001.png',0,'test','abnormal',64,48,8,NULL,'07f81a767ff6cf0f70303f9518c2c71675b202bb22d0d9c69cbe98beff8fd149','c3a31d3e63c6e0e1',11,'2026-11-21T15:31:13.636Z','[]',0,NULL,NULL,NULL);
CREATE TABLE runs (
  id TEXT PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('pretrain', 'fit')), name TEXT NOT NULL, parent TEXT REFERENCES runs(id),
  method TEXT NOT NULL, config TEXT NOT NULL DEFAULT '{}', status TEXT NOT NULL DEFAULT 'new'
    CHECK (status IN ('new', 'queued', 'running', 'done', 'stopped', 'interrupted', 'failed', 'collapsed')),
  folder TEXT, created TEXT NOT NULL, finished TEXT, seconds REAL, code TEXT, packages TEXT, device TEXT,
  note TEXT NOT NULL DEFAULT '', archived INTEGER NOT NULL DEFAULT 0, summary TEXT NOT NULL DEFAULT '{}');
INSERT INTO runs VALUES('untrained-543981bf','old','pretrain','untrained 1',NULL,'untrained','{"size": 32, "epochs": 0, "seed": 0, "encoder": {"init": "random", "seed": 0}}','done','runs/untrained-543981bf','2026-11-21T15:31:13.674Z','2026-11-21T15:31:16.743Z',1.4365616729992325417,'b531385','{"python": "3.11.7", "torch": "2.15.0", "torchvision": "0.29.2", "numpy": "2.4.6", "opencv-python": "5.0.0.93", "scikit-learn": "1.9.1", "safetensors": "0.8.0", "pillow": "12.3.0", "pydicom": "3.0.2"}','cpu','',0,'{}');
INSERT INTO runs VALUES('padim-fcc3f516','old','fit','padim 1','untrained-543981bf','padim','{"layers": ["layer1", "layer2", "layer3"], "channels": 20, "epsilon": 0.01, "sigma": 4.0, "batch": 32, "seed": 0}','done','runs/padim-fcc3f516','2026-11-21T15:31:15.298Z','2026-11-21T15:31:19.989Z',3.2423454310001034173,'b531385','{"python": "3.11.7", "torch": "2.15.0", "torchvision": "0.29.2", "numpy": "2.4.6", "opencv-python": "5.0.0.93", "scikit-learn": "1.9.1", "safetensors": "0.8.0", "pillow": "12.3.0", "pydicom": "3.0.2"}','cpu','',0,'{"images": 6, "scored": 6, "score_seconds": 1.2056145829992602, "threshold": 13.363314628601074, "threshold_roi": 13.363314628601074, "calibration": {"plain": {"scores": [10.27211856842041, 13.363314628601074], "pixels": {"lo": 6.339611291885376, "hi": 13.363314628601074, "threshold": 11.773203411102296}}, "roi": {"scores": [10.27211856842041, 13.363314628601074], "pixels": {"lo": 6.339611291885376, "hi": 13.363314628601074, "threshold": 11.773203411102296}}}, "pixels": {"lo": 6.339611291885376, "hi": 13.363314628601074, "threshold": 11.773203411102296}}');
CREATE TABLE lesion_masks (
  id INTEGER PRIMARY KEY, case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE,
  version INTEGER NOT NULL, source TEXT NOT NULL CHECK (source IN ('import', 'hand', 'run')), reader TEXT,
  created TEXT NOT NULL, run TEXT, threshold REAL, png BLOB NOT NULL, note TEXT NOT NULL DEFAULT '',
  UNIQUE (case_id, version));
INSERT INTO lesion_masks VALUES(1,11,1,'import',NULL,'2026-11-21T15:31:13.636Z',NULL,NULL,X'89504e470d0a1a0a0000000d4948445200000040000000300100000000893041b2000000504944415478da63601852c0014ab3ff61606060606260e06082320418a10c05860608c381c101c280004c060303c3ffff0f20220d0c0ff02b66626038c07000c296ff0f15e4ff0795faf10fdd85340200e2bc0cb8f1181bea0000000049454e44ae426082','');
INSERT INTO lesion_masks VALUES(2,12,1,'import',NULL,'2026-11-21T15:31:13.651Z',NULL,NULL,X'89504e470d0a1a0a0000000d4948445200000040000000300100000000893041b2000000534944415478dad5cd310e40401005d0b74bcf11dc849b71b43d8a23284904cde844a5f19b79c99fc9f07da698cd0ab2b60e7439302450295241be6f1f9018209f14efcb8c67a03fa29a6f2c7b3cddeae2a7b9001d010de27987b8140000000049454e44ae426082','');
CREATE TABLE metrics (
  run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, step INTEGER NOT NULL, name TEXT NOT NULL, value REAL,
  PRIMARY KEY (run, name, step)) WITHOUT ROWID;
CREATE TABLE logs (
  id INTEGER PRIMARY KEY, run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, at TEXT NOT NULL,
  line TEXT NOT NULL);
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY, chain TEXT NOT NULL, position INTEGER NOT NULL DEFAULT 0, run TEXT, verb TEXT,
  args TEXT NOT NULL DEFAULT '{}', status TEXT NOT NULL DEFAULT 'queued'
    CHECK (status IN ('queued', 'running', 'done', 'failed', 'cancelled', 'paused', 'interrupted')),
  pid INTEGER, pid_start TEXT, heartbeat TEXT, created TEXT NOT NULL, started TEXT, finished TEXT,
  progress REAL NOT NULL DEFAULT 0, message TEXT NOT NULL DEFAULT '', error TEXT,
  wants TEXT NOT NULL DEFAULT 'run' CHECK (wants IN ('run', 'pause', 'cancel')), lane TEXT NOT NULL DEFAULT 'long' CHECK (lane IN ('long', 'short')));
INSERT INTO jobs VALUES(1,'[{"verb": "score", "run": "padim-fcc3f516", "args": {}}, {"verb": "evaluate", "run": "padim-fcc3f516", "args": {}}]',0,'padim-fcc3f516','score','{}','queued',NULL,NULL,NULL,'2026-11-21T15:35:09.077Z',NULL,NULL,0.0,'',NULL,'run','short');
INSERT INTO jobs VALUES(2,'[{"verb": "intake", "run": "", "args": {"study": "old"}}]',0,NULL,'intake','{"study": "old"}','queued',NULL,NULL,NULL,'2026-11-21T15:35:09.093Z',NULL,NULL,0.0,'',NULL,'run','short');
CREATE TABLE readings (
  run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, score REAL, score_roi REAL, percentile REAL,
  percentile_roi REAL, flagged INTEGER, flagged_roi INTEGER, map BLOB, map_h INTEGER, map_w INTEGER, map_lo REAL,
  map_hi REAL, extra TEXT NOT NULL DEFAULT '{}', created TEXT NOT NULL, PRIMARY KEY (run, case_id));
INSERT INTO readings VALUES('padim-fcc3f516',7,13.363314628601074218,13.363314628601074218,50.0,50.0,0,0,X'789c0180007fff5176787c01839165187de46f9166ec643373997d2ab3ea610869906b525f345612680579cb904c8eed16bb27b334905180734658c4736e7a501cbb28f94fa346816212628d0de03ca4cdfffff1553f44f38cab7154140624f9d8adc85236714aa541bb22b21bb119eb901a9fa0307c115c21a0212c33831e5496fe8b0000281a6c8937d3',8,8,3.6907262802124023437,13.363314628601074218,'{}','2026-11-21T15:31:21.042Z');
INSERT INTO readings VALUES('padim-fcc3f516',8,10.272118568420410156,10.272118568420410156,0.0,0.0,0,0,X'789c0180007fff6673e982e5cf86e5195fa126bf30eb47607715a6ffffd9d4e829af9775775247a356875f22b085c5ecaa1632fd8364704d5a51bef1f8aeb84e63be316a661a8968828eb3d3712a32ef23b539461db832d7754e556e60d461bc36886d8a1c31105d46f104d4228103d6517b4ee521112790386122c0043e0f894bf6360000fc317e953bc3',8,8,3.3636813163757324218,10.272118568420410156,'{}','2026-11-21T15:31:21.042Z');
INSERT INTO readings VALUES('padim-fcc3f516',9,12.939191818237304687,12.939191818237304687,50.0,50.0,0,0,X'789c0180007fff034811489d3d1555ca7630572d4527564c4096521b84396f525fb66345769d483bb47d8effffa4c5a329cf48af5d6b4f228d0b849fe55aa52d1fc73c344b328ad98d60944086d93dab711a9e1866e47a2e929b81d34a8b86537962655177b472fd625550f38f6257c258c47b88168c0d764f4a41be64bb43c755d64300000b478c833750',8,8,2.4132170677185058593,12.939191818237304687,'{}','2026-11-21T15:31:21.178Z');
INSERT INTO readings VALUES('padim-fcc3f516',10,10.874432563781738281,10.874432563781738281,50.0,50.0,0,0,X'789c0180007fffa74bdd640f46fe4b75395e28c57cc273c4802094a049834384282c34ac837973f2bba0cc599f7b69ae5c0047b524845151a9cebc727cb263bb52b05fda4af059a5a82aba13e9d0e7b98df920ea5040311cbca9beffff81eba51df677f241144400b755a280c47b81f979804c4b01f9050ca1c69fe19d1080eb4b27510000b20c26623fa1',8,8,2.7549409866333007812,10.874432563781738281,'{}','2026-11-21T15:31:21.179Z');
INSERT INTO readings VALUES('padim-fcc3f516',11,12.516285896301269531,12.516285896301269531,50.0,50.0,0,0,X'789c0180007fff9868ae80775b907edc4e581d0000071d28786e995cc32e52b52b5512421d4f0e054091a8acce4280ad4e5d133f150f2183827948b3a42a92cd54450a3b08e94293d458c13cfdaee1b9e683e8516fda7578a61fb4ffffeef067a97fbd0a93cd50c0289754f56ae149191eef187a28de49323ccc4272a824448b1b673537224a2ba89f3820',8,8,3.8116242885589599609,12.516285896301269531,'{}','2026-11-21T15:31:21.179Z');
INSERT INTO readings VALUES('padim-fcc3f516',12,15.655675888061523437,15.655675888061523437,100.0,100.0,1,1,X'789c0180007fffea3b08385d633859123dca1df53300006043313a3f882282832a153c844c2d12a0542778f0db62d7a158ff44d919752bc843538e4a915d94686587850e2097275594a8aab4d4ffff3cc4a59cc2470d3c8da071929bda2bd6a5b3b9a34e4acc418558e755827a7e78bc679087e6550c472039a3489c711683b47d7a6fdd4a743e8a2a3980',8,8,3.6179387569427490234,15.655675888061523437,'{}','2026-11-21T15:31:21.179Z');
CREATE TABLE evaluations (
  id INTEGER PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, run TEXT, created TEXT NOT NULL,
  "row" TEXT NOT NULL);
INSERT INTO evaluations VALUES(1,'old','padim-fcc3f516','2026-11-21T15:35:09.150Z','{"auroc": 0.75, "ap": 0.8333333333333333, "sensitivity": 0.5, "specificity": 1.0, "accuracy": 0.75, "auroc_ci": null, "ap_ci": null, "sensitivity_ci": null, "specificity_ci": null, "accuracy_ci": null, "pixel_auroc": 0.9330950272514694, "dice": 0.3133004926108375, "iou": 0.18888888888888888, "pro": 0.6245561497326202, "five_groups": null, "pixel_auroc_ci": null, "dice_ci": null, "iou_ci": null, "pro_ci": null, "pixel_threshold": 11.77324209213257, "n_localised": 2, "threshold": 13.363314628601074, "protocol": "held-out", "pixel_rule": "held-out", "roi": true, "n_normal": 2, "n_abnormal": 2, "conformal": {"alpha": 0.05, "threshold": null, "guarantee": "No threshold can promise that at most 5 % of normal images are flagged: it takes 19 held-out normal images, and there are 2. Hold out more.", "held": 2, "needed": 19, "flagged": 0, "normals": 2}, "encoder": "untrained", "detector": "padim", "run": "padim-fcc3f516", "seconds": 5.88, "seed": 0, "evaluate_seconds": 0.03}');
CREATE TABLE readers (name TEXT PRIMARY KEY, role TEXT NOT NULL, password_hash TEXT, created TEXT NOT NULL);
CREATE TABLE reviews (
  id INTEGER PRIMARY KEY, case_id INTEGER NOT NULL REFERENCES cases(id), reader TEXT NOT NULL,
  decision TEXT NOT NULL CHECK (decision IN ('normal', 'abnormal', 'unsure')), comment TEXT NOT NULL DEFAULT '',
  created TEXT NOT NULL, seconds REAL, run TEXT, shown TEXT NOT NULL DEFAULT '{}',
  stage TEXT NOT NULL DEFAULT 'first' CHECK (stage IN ('first', 'second', 'adjudication')),
  active INTEGER NOT NULL DEFAULT 1);
INSERT INTO reviews VALUES(1,9,'ann','abnormal','','2026-11-21T15:31:21.206Z',NULL,'padim-fcc3f516','{}','first',1);
INSERT INTO reviews VALUES(2,12,'ann','normal','artefact','2026-11-21T15:35:09.053Z',NULL,'padim-fcc3f516','{}','first',1);
INSERT INTO reviews VALUES(3,12,'ann','abnormal','','2026-11-21T15:35:09.066Z',NULL,'padim-fcc3f516','{}','first',1);
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO settings VALUES('import:old','{"study": "old", "layout": "plain", "accepted": 12, "masks": 2, "counts": {"holdout normal": 2, "test abnormal": 2, "test normal": 2, "train normal": 6}, "rejected": [], "duplicates": [], "burned_in": []}');
CREATE TABLE presets (id INTEGER PRIMARY KEY, name TEXT NOT NULL, version INTEGER NOT NULL, strong TEXT NOT NULL, config TEXT NOT NULL, note TEXT NOT NULL DEFAULT '', reader TEXT, created TEXT NOT NULL, removed INTEGER NOT NULL DEFAULT 0, UNIQUE (name, version));
CREATE TABLE events (
  id INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL, kind TEXT NOT NULL, study TEXT, case_id INTEGER,
  before TEXT NOT NULL DEFAULT 'null', after TEXT NOT NULL DEFAULT 'null', shown TEXT NOT NULL DEFAULT '{}',
  seconds REAL, previous TEXT NOT NULL, hash TEXT NOT NULL UNIQUE);
INSERT INTO events VALUES(1,'2026-11-21T15:31:21.207Z','ann','decision','old',9,'null','{"comment":"","decision":"abnormal","review":1,"run":"padim-fcc3f516","stage":"first"}','{}',NULL,'0000000000000000000000000000000000000000000000000000000000000000','d7da3045f2388af41ab30a1f519f553e11548ef39caebab6e2ebe0b8fce5d465');
INSERT INTO events VALUES(2,'2026-11-21T15:35:09.050Z','ann','watch','old',NULL,'null','{"active":1,"copy":0,"folder":"/data/colon","run":null}','{}',NULL,'d7da3045f2388af41ab30a1f519f553e11548ef39caebab6e2ebe0b8fce5d465','5ffda9c59f131018635239a94e9017442ca60743fef1ccb64931a01adbd4c463');
INSERT INTO events VALUES(3,'2026-11-21T15:35:09.054Z','ann','decision','old',12,'null','{"comment":"artefact","decision":"normal","review":2,"run":"padim-fcc3f516","stage":"first"}','{}',NULL,'5ffda9c59f131018635239a94e9017442ca60743fef1ccb64931a01adbd4c463','72bda562b0aa6d883faa60109ea79b6b56fbb022e75cf0617e6e7f84fd8e1ee0');
INSERT INTO events VALUES(4,'2026-11-21T15:35:09.066Z','ann','decision','old',12,'"normal"','{"comment":"","decision":"abnormal","review":3,"run":"padim-fcc3f516","stage":"first"}','{}',NULL,'72bda562b0aa6d883faa60109ea79b6b56fbb022e75cf0617e6e7f84fd8e1ee0','6c3aea30bde2e1f79386fc02095e2079e57d7bbd1bcbbbb19a3d2460dcc2a323');
CREATE TABLE current_reviews (
  case_id INTEGER NOT NULL, reader TEXT NOT NULL, stage TEXT NOT NULL, review_id INTEGER NOT NULL, decision TEXT NOT
  NULL,
  created TEXT NOT NULL, PRIMARY KEY (case_id, reader, stage)) WITHOUT ROWID;
INSERT INTO current_reviews VALUES(9,'ann','first',1,'abnormal','2026-11-21T15:31:21.206Z');
INSERT INTO current_reviews VALUES(12,'ann','first',3,'abnormal','2026-11-21T15:35:09.066Z');
CREATE TABLE case_votes (
  case_id INTEGER PRIMARY KEY, study TEXT NOT NULL, readers INTEGER NOT NULL, normal REAL NOT NULL, abnormal REAL NOT
  NULL,
  unsure REAL NOT NULL, disagreement REAL NOT NULL);
INSERT INTO case_votes VALUES(9,'old',1,0.0,1.0,0.0,0.0);
INSERT INTO case_votes VALUES(12,'old',1,0.0,1.0,0.0,0.0);
CREATE TABLE undone (review_id INTEGER PRIMARY KEY, reader TEXT NOT NULL, study TEXT NOT NULL);
CREATE TABLE answered (token TEXT PRIMARY KEY, created TEXT NOT NULL, answer TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE assignments (
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, reader TEXT NOT NULL, by TEXT NOT NULL,
  created TEXT NOT NULL, PRIMARY KEY (reader, case_id)) WITHOUT ROWID;
CREATE TABLE findings (
  id INTEGER PRIMARY KEY, case_id INTEGER NOT NULL REFERENCES cases(id), mask_version INTEGER, label TEXT NOT NULL,
  comment TEXT NOT NULL DEFAULT '', box TEXT, reader TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE foreign_events (bundle TEXT NOT NULL, id INTEGER NOT NULL, at TEXT, who TEXT, kind TEXT, study TEXT, case_id INTEGER, before TEXT, after TEXT, shown TEXT, seconds REAL, previous TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (bundle, id)) WITHOUT ROWID;
CREATE TABLE reader_words (reader TEXT NOT NULL, case_id INTEGER NOT NULL, study TEXT NOT NULL,
  decision TEXT NOT NULL, created TEXT, PRIMARY KEY (reader, case_id)) WITHOUT ROWID;
INSERT INTO reader_words VALUES('ann',9,'old','abnormal','2026-11-21T15:31:21.206Z');
INSERT INTO reader_words VALUES('ann',12,'old','abnormal','2026-11-21T15:35:09.066Z');
CREATE TABLE case_tags (tag TEXT NOT NULL, case_id INTEGER NOT NULL, PRIMARY KEY (tag, case_id)) WITHOUT ROWID;
CREATE TABLE watches (study TEXT PRIMARY KEY REFERENCES studies(id) ON DELETE CASCADE, folder TEXT NOT NULL, run TEXT, active INTEGER NOT NULL DEFAULT 1, copy INTEGER NOT NULL DEFAULT 0, looked TEXT, message TEXT NOT NULL DEFAULT '', changed TEXT);
INSERT INTO watches VALUES('old','/data/colon',NULL,1,0,NULL,'',NULL);
CREATE TABLE arrivals (study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, path TEXT NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL, since REAL NOT NULL, state TEXT NOT NULL CHECK (state IN ('waiting', 'ready', 'taken', 'double', 'failed')), tries INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT '', at TEXT NOT NULL, PRIMARY KEY (study, path)) WITHOUT ROWID;
INSERT INTO arrivals VALUES('old','/data/colon/new.png',10,20,0.0,'ready',0,'','2026-11-21T15:36:00.000Z');
CREATE TABLE cluster_maps (key TEXT PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, config TEXT NOT NULL, created TEXT NOT NULL, job INTEGER, points INTEGER, epochs TEXT, seconds REAL);
INSERT INTO cluster_maps VALUES('494c1e6a5d7a054c8354','old','untrained-543981bf',replace('{\n "align": true,\n "epochs": [\n  0\n ],\n "feature": "projected",\n "grid": 8,\n "iterations": 750,\n "method": "tsne",\n "min_dist": 0.1,\n "neighbours": 15,\n "patches": 4,\n "perplexity": 3.0,\n "points": {\n  "abnormal": 2,\n  "holdout": 2,\n  "mix_of": "all",\n  "mixed": 2,\n  "seed": 0,\n  "test_normal": 2,\n  "train": 4\n },\n "seed": 0\n}','\n',char(10)),'2026-11-21T15:35:08.157Z',NULL,16,'[0]',0.84999999999999997779);
CREATE TABLE cluster_views (id INTEGER PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, name TEXT NOT NULL, reader TEXT NOT NULL, created TEXT NOT NULL, state TEXT NOT NULL, UNIQUE (study, name));
CREATE TABLE cluster_placed (key TEXT PRIMARY KEY, map TEXT NOT NULL REFERENCES cluster_maps(key) ON DELETE CASCADE, title TEXT NOT NULL, config TEXT NOT NULL, created TEXT NOT NULL, job INTEGER, images INTEGER);
INSERT INTO cluster_placed VALUES('aa11bb22cc33dd44ee55','494c1e6a5d7a054c8354','Two new images','{"neighbours": 15}','2026-11-21T15:36:00.000Z',NULL,2);
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE INDEX cases_by_study ON cases (study, split, label);
CREATE INDEX runs_by_study ON runs (study, kind, created);
CREATE INDEX runs_by_parent ON runs (parent);
CREATE INDEX logs_by_run ON logs (run, id);
CREATE INDEX jobs_by_status ON jobs (status, id);
CREATE INDEX readings_by_percentile ON readings (run, percentile_roi);
CREATE INDEX evaluations_by_study ON evaluations (study, run);
CREATE INDEX reviews_by_case ON reviews (case_id, reader, stage, active);
CREATE INDEX events_by_case ON events (case_id, id);
CREATE INDEX events_by_study ON events (study, id);
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
  BEGIN SELECT RAISE(ABORT, 'the audit trail is never shortened'); END;
CREATE TRIGGER events_no_replace BEFORE INSERT ON events
  WHEN EXISTS (SELECT 1 FROM events WHERE id = NEW.id OR hash = NEW.hash)
  BEGIN SELECT RAISE(ABORT, 'the audit trail is never changed'); END;
CREATE INDEX current_reviews_by_reader ON current_reviews (reader, stage, created, case_id);
CREATE INDEX case_votes_by_disagreement ON case_votes (study, disagreement, case_id);
CREATE TRIGGER reviews_added AFTER INSERT ON reviews BEGIN 
  INSERT OR REPLACE INTO current_reviews (case_id, reader, stage, review_id, decision, created)
    SELECT case_id, reader, stage, id, decision, created FROM reviews
    WHERE case_id = NEW.case_id AND reader = NEW.reader AND stage = NEW.stage AND active = 1 ORDER BY id DESC LIMIT 1;
 
  INSERT OR REPLACE INTO case_votes (case_id, study, readers, normal, abnormal, unsure, disagreement)
    SELECT NEW.case_id, (SELECT study FROM cases WHERE id = NEW.case_id), count(*),
      total(decision = 'normal'), total(decision = 'abnormal'), total(decision = 'unsure'),
      CASE count(*) WHEN 0 THEN 0.0 ELSE 1.0 - max(total(decision = 'normal'), total(decision = 'abnormal'),
        total(decision = 'unsure')) / count(*) END
    FROM (SELECT decision, max(stage) FROM current_reviews
      WHERE case_id = NEW.case_id AND stage != 'adjudication' GROUP BY reader);
 END;
CREATE TRIGGER reviews_changed AFTER UPDATE ON reviews BEGIN
  DELETE FROM current_reviews WHERE case_id = NEW.case_id AND reader = NEW.reader AND stage = NEW.stage;
  
  INSERT OR REPLACE INTO current_reviews (case_id, reader, stage, review_id, decision, created)
    SELECT case_id, reader, stage, id, decision, created FROM reviews
    WHERE case_id = NEW.case_id AND reader = NEW.reader AND stage = NEW.stage AND active = 1 ORDER BY id DESC LIMIT 1;
 
  INSERT OR REPLACE INTO case_votes (case_id, study, readers, normal, abnormal, unsure, disagreement)
    SELECT NEW.case_id, (SELECT study FROM cases WHERE id = NEW.case_id), count(*),
      total(decision = 'normal'), total(decision = 'abnormal'), total(decision = 'unsure'),
      CASE count(*) WHEN 0 THEN 0.0 ELSE 1.0 - max(total(decision = 'normal'), total(decision = 'abnormal'),
        total(decision = 'unsure')) / count(*) END
    FROM (SELECT decision, max(stage) FROM current_reviews
      WHERE case_id = NEW.case_id AND stage != 'adjudication' GROUP BY reader);
 END;
CREATE TRIGGER reviews_no_delete BEFORE DELETE ON reviews
  BEGIN SELECT RAISE(ABORT, 'reviews are never deleted'); END;
CREATE TRIGGER reviews_said_once BEFORE UPDATE OF case_id, reader, decision, comment, created, seconds, run,
    shown, stage
  ON reviews BEGIN SELECT RAISE(ABORT, 'a review is never rewritten: add another'); END;
CREATE TRIGGER lesion_masks_kept BEFORE UPDATE ON lesion_masks
  BEGIN SELECT RAISE(ABORT, 'a lesion mask is never rewritten: add a version'); END;
CREATE INDEX findings_by_case ON findings (case_id, id);
CREATE INDEX readings_by_score ON readings (run, score, case_id);
CREATE INDEX readings_by_score_roi ON readings (run, score_roi, case_id);
CREATE TRIGGER foreign_events_no_update BEFORE UPDATE ON foreign_events BEGIN SELECT RAISE(ABORT, 'the audit trail is never changed'); END;
CREATE TRIGGER foreign_events_no_delete BEFORE DELETE ON foreign_events BEGIN SELECT RAISE(ABORT, 'the audit trail is never changed'); END;
CREATE INDEX reader_words_by_time ON reader_words (reader, study, created, case_id);
CREATE TRIGGER words_added AFTER INSERT ON current_reviews BEGIN 
  DELETE FROM reader_words WHERE reader = NEW.reader AND case_id = NEW.case_id;
  INSERT INTO reader_words (reader, case_id, study, decision, created)
    SELECT k.reader, k.case_id, c.study, k.decision,
      (SELECT f.created FROM current_reviews f WHERE f.case_id = k.case_id AND f.reader = k.reader
        AND f.stage = 'first')
    FROM current_reviews k JOIN cases c ON c.id = k.case_id
    WHERE k.case_id = NEW.case_id AND k.reader = NEW.reader AND k.stage != 'adjudication'
    ORDER BY k.stage DESC LIMIT 1;
 END;
CREATE TRIGGER words_taken_back AFTER DELETE ON current_reviews BEGIN 
  DELETE FROM reader_words WHERE reader = OLD.reader AND case_id = OLD.case_id;
  INSERT INTO reader_words (reader, case_id, study, decision, created)
    SELECT k.reader, k.case_id, c.study, k.decision,
      (SELECT f.created FROM current_reviews f WHERE f.case_id = k.case_id AND f.reader = k.reader
        AND f.stage = 'first')
    FROM current_reviews k JOIN cases c ON c.id = k.case_id
    WHERE k.case_id = OLD.case_id AND k.reader = OLD.reader AND k.stage != 'adjudication'
    ORDER BY k.stage DESC LIMIT 1;
 END;
CREATE INDEX case_tags_by_case ON case_tags (case_id);
CREATE TRIGGER tags_with_case AFTER INSERT ON cases WHEN NEW.tags != '[]' BEGIN INSERT OR IGNORE INTO case_tags (tag, case_id) SELECT t.value, NEW.id FROM json_each(NEW.tags) t; END;
CREATE TRIGGER tags_changed AFTER UPDATE OF tags ON cases BEGIN
  DELETE FROM case_tags WHERE case_id = NEW.id; INSERT OR IGNORE INTO case_tags (tag, case_id) SELECT t.value, NEW.id FROM json_each(NEW.tags) t; END;
CREATE TRIGGER facts_gone AFTER DELETE ON cases BEGIN
  DELETE FROM case_tags WHERE case_id = OLD.id; DELETE FROM reader_words WHERE case_id = OLD.id; END;
CREATE INDEX cases_by_name ON cases (study, name, id, split);
CREATE INDEX cases_by_added ON cases (study, added, id, split);
CREATE INDEX cases_by_sha256 ON cases (study, sha256, id, split);
CREATE INDEX cases_by_id ON cases (study, id, split);
CREATE UNIQUE INDEX readings_scored ON readings (run, case_id) WHERE score IS NOT NULL;
CREATE UNIQUE INDEX readings_flagged ON readings (run, case_id) WHERE flagged = 1;
CREATE UNIQUE INDEX readings_scored_roi ON readings (run, case_id) WHERE score_roi IS NOT NULL;
CREATE UNIQUE INDEX readings_flagged_roi ON readings (run, case_id) WHERE flagged_roi = 1;
CREATE INDEX arrivals_by_state ON arrivals (study, state, at);
CREATE INDEX cases_by_series ON cases (study, series, place, slice) WHERE series IS NOT NULL;
CREATE INDEX cluster_maps_by_study ON cluster_maps (study, created);
CREATE UNIQUE INDEX jobs_one_running ON jobs (lane) WHERE status = 'running';
CREATE TRIGGER events_no_update BEFORE UPDATE ON events
  BEGIN SELECT RAISE(ABORT, 'the audit trail is never changed'); END;
COMMIT;
