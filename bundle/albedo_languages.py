"""Languages by file name: GitHub linguist's programming and markup kinds.

Made by tools/make_languages.py from the npm package linguist-languages 9.5.0; do not edit.
One language a line: name, extensions, whole file names, tab-separated; longest extension wins.
"""

SOURCE = "linguist-languages 9.5.0"

TABLE = """\
1C Enterprise	.bsl .os	
4D	.4dm	
ABAP	.abap	
ABAP CDS	.asddls	
AGS Script	.asc	
AIDL	.aidl	
AL	.al	
ALGOL	.alg	
AMPL	.ampl	
ANTLR	.g4	
API Blueprint	.apib	
APL	.apl .dyalog	
ASL	.asl .dsl	
ASP.NET	.asax .ascx .ashx .asmx .aspx .axd	
ATS	.dats .hats .sats	
ActionScript	.as	
Ada	.ada .adb .ads	
Agda	.agda	
Aiken	.ak	
Aleo	.aleo	
Alloy	.als	
Alpine Abuild		APKBUILD
AngelScript	.angelscript	
Answer Set Programming	.lp	
Antlers	.antlers.html .antlers.php .antlers.xml	
Apex	.apex .trigger	
Apollo Guidance Computer	.agc	
AppleScript	.applescript .scpt	
Arc	.arc	
AspectJ	.aj	
Assembly	.a51 .asm .nasm .s	
Astro	.astro	
Asymptote	.asy	
Augeas	.aug	
AutoHotkey	.ah1 .ah2 .ahk .ahkl	
AutoIt	.au3	
Awk	.auk .awk .gawk .mawk .nawk	
B	.b	
B (Formal Method)	.mch	
BAML	.baml	
BBCode	.bbcode	
BQN	.bqn	
Ballerina	.bal	
Batchfile	.bat .cmd	gradlew.bat|mvnw.cmd
Beef	.bf	
Befunge	.befunge	
Berry	.be	
BibTeX	.bib .bibtex	
BibTeX Style	.bst	
Bicep	.bicep .bicepparam	
Bikeshed	.bs	
Bison	.bison	
BitBake	.bb .bbappend .bbclass	
Blade	.blade .blade.php	
BlitzBasic	.decls	
BlitzMax	.bmx	
Blueprint	.blp	
Bluespec	.bsv	
Boo	.boo	
Boogie	.bpl	
Brightscript	.brs	
Bru	.bru	
C	.c .cats .h .h.in .idc	
C#	.cake .cs .cs.pp .csx .linq	
C++	.c++ .cc .cp .cpp .cppm .cxx .h++ .hh .hpp .hxx .inl .ino .ipp .ixx .tcc .tpp .txx	
C2hs Haskell	.chs	
C3	.c3	
CAP CDS	.cds	
CLIPS	.clp	
CMake	.cmake .cmake.in	CMakeLists.txt
COBOL	.cbl .ccp .cob .cobol .cpy	
CQL	.cql	
CSS	.css	
CUE	.cue	
CWeb	.w	
Cadence	.cdc	
Cairo	.cairo	
CameLIGO	.mligo	
Cangjie	.cj	
Cap'n Proto	.capnp	
Carbon	.carbon	
CartoCSS	.mss	
Ceylon	.ceylon	
Chapel	.chpl	
Charity	.ch	
ChucK	.ck	
Circom	.circom	
Cirru	.cirru	
Clarion	.clw	
Clarity	.clar	
Classic ASP	.asp	
Clean	.dcl .icl	
Click	.click	
Clojure	.boot .cl2 .clj .cljc .cljs .cljs.hl .cljscm .cljx .hic	riemann.config
Closure Templates	.soy	
Clue	.clue	
CodeQL	.ql .qll	
CoffeeScript	._coffee .cjsx .coffee .coffee.erb .iced	Cakefile
ColdFusion	.cfm .cfml	
ColdFusion CFC	.cfc	
Common Lisp	.asd .lisp .lsp .ny .podsl .sexp	
Common Workflow Language	.cwl	
Component Pascal	.cps	
Cooklang	.cook	
Crystal	.cr	
Csound	.orc .udo	
Csound Document	.csd	
Csound Score	.sco	
Cuda	.cu .cuh	
Curry	.curry	
Cycript	.cy	
Cypher	.cyp .cypher	
Cython	.pxd .pxi .pyx	
D	.d .di	
D2	.d2	
DIGITAL Command Language	.com	
DM	.dm	
Dafny	.dfy	
Dart	.dart	
Daslang	.das	
DataWeave	.dwl	
Dhall	.dhall	
Dockerfile	.containerfile .dockerfile	Containerfile|Dockerfile
Dogescript	.djs	
Dune		dune-project
Dylan	.dyl .dylan .intr .lid	
ECL	.ecl .eclxml	
EJS	.ect .ejs .ejs.t .jst	
EQ	.eq	
Earthly		Earthfile
Edge	.edge	
EdgeQL	.edgeql .esdl	
Eiffel	.e	
Elixir	.ex .exs	mix.lock
Elm	.elm	
Elvish	.elv	
Emacs Lisp	.el .emacs .emacs.desktop	.abbrev_defs|.emacs|.emacs.desktop|.gnus|.spacemacs|.viper|Cask|Eask|Project.ede|_emacs|abbrev_defs
EmberScript	.em .emberscript	
Erlang	.app .app.src .erl .es .escript .hrl .xrl .yrl	Emakefile|rebar.config|rebar.config.lock|rebar.lock
F#	.fs .fsi .fsx	
F*	.fst .fsti	
FIRRTL	.fir	
FLUX	.flux .fx	
FPP	.fpp .fppi	
Factor	.factor	.factor-boot-rc|.factor-rc
Fancy	.fancypack .fy	Fakefile
Fantom	.fan	
Faust	.dsp	
Fennel	.fnl	
Flix	.flix	
Fluent	.ftl	
Forth	.4th .forth .frt .fth	
Fortran	.f .f77 .for	
Fortran Free Form	.f03 .f08 .f90 .f95	
FreeBASIC	.bi	
FreeMarker	.ftlh	
Frege	.fr	
Futhark	.fut	
G-code	.cnc .gco .gcode	
GAML	.gaml	
GAMS	.gms	
GAP	.g .gap .gi .tst	
GDB	.gdb .gdbinit	
GDScript	.gd	
GDShader	.gdshader .gdshaderinc	
GLSL	.fp .frag .frg .fsh .fshader .geo .geom .glsl .glslf .glslv .gshader .rchit .rmiss .tesc .tese .vert .vrx .vs .vsh .vshader	
GSC	.csc .gsc .gsh	
Game Maker Language	.gml	
Genero 4gl	.4gl	
Genero per	.per	
Genie	.gs	
Genshi	.kid	
Gentoo Ebuild	.ebuild	
Gentoo Eclass	.eclass	
Gherkin	.feature .story	
Gleam	.gleam	
Glimmer JS	.gjs	
Glimmer TS	.gts	
Glyph	.glf	
Gno	.gno	
Gnuplot	.gnu .gnuplot .gp .plot .plt	
Go	.go	
Go Template	.gohtml .gotmpl .html.tmpl .tmpl	_helpers.tpl
Golo	.golo	
Gosu	.gst .gsx .vark	
Grace	.grace	
Grammatical Framework	.gf	
Groovy	.groovy .grt .gtpl .gvy	Jenkinsfile
Groovy Server Pages	.gsp	
HCL	.hcl .nomad .tf .tfvars .tofu .workflow	
HIP	.hip	
HLSL	.cginc .fxh .hlsl .hlsli	
HTML	.hta .htm .html .html.hl .xht .xhtml	
HTML+ECR	.ecr	
HTML+EEX	.heex .html.eex .leex	
HTML+ERB	.erb .erb.deface .rhtml	
HTML+PHP	.phtml	
HTML+Razor	.cshtml .razor	
Hack	.hack .hhi	
Haml	.haml .haml.deface	
Handlebars	.handlebars .hbs	
Harbour	.hb	
Hare	.ha	
Haskell	.hs .hs-boot .hsc	
Haxe	.hx .hxsl	
HiveQL	.hql	
HolyC	.hc	
Hurl	.hurl	
Hy	.hy	
IDL	.dlm	
IGOR Pro	.ipf	
IL Assembly	.il	
ISPC	.ispc	
Idris	.idr .lidr	
ImHex Pattern Language	.hexpat	
ImageJ Macro	.ijm	
Imba	.imba	
Inform 7	.i7x .ni	
Ink	.ink	
Inno Setup	.isl .iss	
Io	.io	
Ioke	.ik	
Isabelle	.thy	
Isabelle ROOT		ROOT
J	.ijs	
JASS	.j	
JCL	.jcl	
JFlex	.flex .jflex	
JSONiq	.jq	
Jac	.jac	
Jai	.jai	
Janet	.janet	
Java	.jav .java .jsh	
Java Server Pages	.jsp .tag	
Java Template Engine	.jte	
JavaScript	._js .bones .cjs .es6 .jake .javascript .js .jsb .jscad .jsfl .jslib .jsm .jspre .jss .jsx .mjs .njs .pac .sjs .ssjs .xsjs .xsjslib	Jakefile
JavaScript+ERB	.js.erb	
JetBrains MPS	.mpl .mps .msd	
Jinja	.j2 .jinja .jinja2	
Jison	.jison	
Jison Lex	.jisonlex	
Jolie	.iol .ol	
Jsonnet	.jsonnet .libsonnet	
Julia	.jl	
Jupyter Notebook	.ipynb	Notebook
Just	.just	.JUSTFILE|.Justfile|.justfile|JUSTFILE|Justfile|justfile
KCL	.k	kcl.mod|kcl.mod.lock
KRL	.krl	
Kaitai Struct	.ksy	
KakouneScript	.kak	kakrc
KerboScript	.ks	
Kit	.kit	
KoLmafia ASH	.ash	
Koka	.kk	
Kotlin	.kt .ktm .kts	
LFE	.lfe	
LLVM	.ll	
LOLCODE	.lol	
LSL	.lsl .lslp	
LabVIEW	.lvclass .lvlib .lvproj	
Langium	.langium	
Lasso	.las .lasso .lasso8 .lasso9	
Latte	.latte	
Lean	.hlean .lean	
Leo	.leo	
Less	.less	
Lex	.l .lex	Lexer.x|lexer.x
LigoLANG	.ligo	
LilyPond	.ily .ly	
Linker Script	.ld .lds	ld.script
Liquid	.liquid	
Liquidsoap	.liq	
Literate Agda	.lagda	
Literate CoffeeScript	.coffee.md .litcoffee	
Literate Haskell	.lhs	
LiveCode Script	.livecodescript	
LiveScript	._ls .ls	Slakefile
Lobster	.lobster	
Logos	.xi .xm	
Logtalk	.lgt .logtalk	
LookML	.lkml .lookml	
Lua	.fcgi .lua .nse .p8 .pd_lua .rbxs .rockspec .wlua	.luacheckrc
Luau	.luau	
M	.mumps	
M4	.m4	
M4Sugar		configure.ac
MATLAB	.matlab	
MAXScript	.mcr	
MDX	.mdx	
MLIR	.mlir	
MQL4	.mq4 .mqh	
MQL5	.mq5	
MTML	.mtml	
MUF	.muf	
Macaulay2	.m2	
Makefile	.mak .make .makefile .mk .mkfile	BSDmakefile|GNUmakefile|Kbuild|Makefile|Makefile.am|Makefile.boot|Makefile.frag|Makefile.in|Makefile.inc|Makefile.pc|Makefile.wat|makefile|makefile.sco|mkfile
Mako	.mako .mao	
Marko	.marko	
Mask	.mask	
Max	.maxhelp .maxpat .maxproj .mxt .pat	
MeTTa	.metta	
Mermaid	.mermaid .mmd	
Meson		meson.build|meson_options.txt
Metal	.metal	
MiniD	.minid	
MiniZinc	.mzn	
Mint	.mint	
Mirah	.druby .duby .mirah	
Modelica	.mo	
Modula-2	.mod	
Modula-3	.i3 .ig .m3 .mg	
Module Management System	.mmk .mms	descrip.mmk|descrip.mms
Mojo	.mojo	
Monkey	.monkey .monkey2	
Monkey C	.mc	
Moocode	.moo	
MoonBit	.mbt	
MoonScript	.moon	
Motorola 68K Assembly	.x68	
Move	.move	
Mustache	.mustache	
Myghty	.myt	
NASL	.nasl	
NCL	.ncl	
NSIS	.nsh .nsi	
NWScript	.nss	
Nasal	.nas	
Nearley	.ne .nearley	
Nemerle	.n	
NetLinx	.axi .axs	
NetLinx+ERB	.axi.erb .axs.erb	
NetLogo	.nlogo	
Nextflow	.nf	nextflow.config
Nim	.nim .nim.cfg .nimble .nimrod .nims	nim.cfg
Nit	.nit	
Nix	.nix	
Noir	.nr	
Nu	.nu	Nukefile
NumPy	.numpy .numpyw .numsc	
Nunjucks	.njk	
OCaml	.eliom .eliomi .ml .ml4 .mli .mll .mly	
OMNeT++ MSG	.msg	
OMNeT++ NED	.ned	
Oberon	.ob2	
Objective-C	.m	
Objective-C++	.mm	
Objective-J	.sj	
Omgrofl	.omgrofl	
Opa	.opa	
Opal	.opal	
Open Policy Agent	.rego	
OpenCL	.cl .opencl	
OpenEdge ABL	.p	
OpenQASM	.qasm	
OpenSCAD	.scad	
OverPy	.opy	
OverpassQL	.overpassql	
Ox	.ox .oxh .oxo	
Oxygene	.oxygene	
Oz	.oz	
P4	.p4	
PDDL	.pddl	
PEG.js	.peggy .pegjs	
PHP	.aw .ctp .inc .php .php3 .php4 .php5 .phps .phpt	.php|.php_cs|.php_cs.dist|Phakefile
PLSQL	.bdy .ddl .fnc .pck .pkb .pks .plb .pls .plsql .prc .spc .tpb .tps .trg .vw	
PLpgSQL	.pgsql	
POV-Ray SDL	.pov	
Pact	.pact	
Pan	.pan	
Papyrus	.psc	
Parrot	.parrot	
Parrot Assembly	.pasm	
Parrot Internal Representation	.pir	
Pascal	.dfm .dpr .lpr .pas .pascal	
Pawn	.pwn .sma	
Pep8	.pep	
Perl	.cgi .perl .ph .pl .plx .pm .psgi .t	.latexmkrc|Makefile.PL|Rexfile|ack|cpanfile|latexmkrc
Pic	.chem .pic	
PigLatin	.pig	
Pike	.pike .pmod	
PogoScript	.pogo	
Polar	.polar	
Pony	.pony	
Portugol	.por	
PostCSS	.pcss .postcss	
PostScript	.eps .epsi .pfa .ps	
Power Query	.pq	
PowerBuilder	.pbt .sra .sru .srw	
PowerShell	.ps1 .psd1 .psm1	
Praat	.praat	
Pro*C	.pc	
Processing	.pde	
Procfile		Procfile
Prolog	.pro .prolog .yap	
Promela	.pml	
Propeller Spin	.spin	
Pug	.jade .pug	
Puppet	.pp	Modulefile
PureBasic	.pb .pbi	
PureScript	.purs	
Pyret	.arr	
Python	.gyp .gypi .lmi .py .py3 .pyde .pyi .pyp .pyt .pyw .tac .wsgi .xpy	.gclient|DEPS|SConscript|SConstruct|wscript
Q#	.qs	
QML	.qbs .qml	
QMake	.pri	
Qt Script		installscript.qs|toolchain_installscript.qs
Quake		m3makefile|m3overrides
QuakeC	.qc	
Quint	.qnt	
R	.r .rd .rhistory .rsx	.Rapp.history|.Rhistory|.Rprofile|expr-dist
RAML	.raml	
RAScript	.rascript	
REALbasic	.rbbas .rbfrm .rbmnu .rbres .rbtbar .rbuistate	
REXX	.pprx .rex .rexx	
RPGLE	.rpgle .sqlrpgle	
RUNOFF	.rnh .rno	
Racket	.rkt .rktd .rktl .scrbl	
Ragel	.rl	
Raku	.6pl .6pm .nqp .p6 .p6l .p6m .pl6 .pm6 .raku .rakumod	
Rascal	.rsc	
ReScript	.res .resi	
Reason	.re .rei	
ReasonLIGO	.religo	
Rebol	.r2 .r3 .reb .rebol	
Red	.red	
Redcode	.cw	
Redscript	.reds	
Ren'Py	.rpy	
RenderScript	.rsh	
Rhai	.rhai	
Rich Text Format	.rtf	
Ring	.ring	
Riot	.riot	
RobotFramework	.resource .robot	
Roc	.roc	
Rocq Prover	.coq	
Roff	.1in .1m .1x .2 .3 .3in .3m .3p .3pm .3qt .3x .4 .5 .6 .7 .8 .9 .man .mdoc .me .ms .roff .tmac	eqnrc|mmn|mmt|troffrc|troffrc-end
Roff Manpage	.1	
Rouge	.rg	
Ruby	.builder .eye .gemspec .god .jbuilder .mspec .pluginspec .podspec .prawn .rabl .rake .rb .rbi .rbuild .rbw .rbx .ru .ruby .thor .watchr	.irbrc|.pryrc|.simplecov|Appraisals|Berksfile|Brewfile|Buildfile|Capfile|Dangerfile|Deliverfile|Fastfile|Gemfile|Guardfile|Jarfile|Mavenfile|Podfile|Puppetfile|Rakefile|Snapfile|Steepfile|Thorfile|Vagrantfile|buildfile
Rust	.rs .rs.in	
SAS	.sas	
SCSS	.scss	
SMT	.smt .smt2 .z3	
SQF	.hqf .sqf	
SQLPL	.db2	
SRecode Template	.srt	
SWIG	.i .swg .swig	
Sage	.sage .sagews	
Sail	.sail	
Salt	.sls	
Sass	.sass	
Scala	.kojo .sbt .sc .scala	
Scaml	.scaml	
Scenic	.scenic	
Scheme	.scm .sld .sps .ss	
Scilab	.sce .sci	
Self	.self	
ShaderLab	.shader	
Shell	.bash .bats .command .ksh .pacscript .sbatch .sh .sh.in .slurm .tmux .tool .zsh .zsh-theme	.bash_aliases|.bash_functions|.bash_history|.bash_logout|.bash_profile|.bashrc|.cshrc|.envrc|.flaskenv|.kshrc|.login|.profile|.tmux.conf|.xinitrc|.xsession|.zlogin|.zlogout|.zprofile|.zshenv|.zshrc|9fs|PKGBUILD|bash_aliases|bash_logout|bash_profile|bashrc|cshrc|gradlew|kshrc|login|man|mvnw|profile|tmux.conf|xinitrc|xsession|zlogin|zlogout|zprofile|zshenv|zshrc
ShellSession	.sh-session	
Shen	.shen	
Sieve	.sieve	
Singularity		Singularity
Slang	.slang	
Slash	.sl	
Slice	.ice	
Slim	.slim	
Slint	.slint	
SmPL	.cocci	
Smali	.smali	
Smalltalk	.st	
Smarty	.tpl	
Smithy	.smithy	
Snakemake	.smk .snakefile	Snakefile
Solidity	.sol	
SourcePawn	.sp	
Squirrel	.nut	
Stan	.stan	
Standard ML	.fun .sig .sml	
Starlark	.bzl	BUCK|BUILD|BUILD.bazel|MODULE.bazel|Tiltfile|WORKSPACE|WORKSPACE.bazel|WORKSPACE.bzlmod
Stata	.ado .do .doh .ihlp .mata .matah .sthlp	
Stylus	.styl	
SugarSS	.sss	
SurrealQL	.surql	
Svelte	.svelte	
Sway	.sw	
Swift	.swift	
SystemVerilog	.sv .svh .vh	
TI Program	.8xp .8xp.txt	
TL-Verilog	.tlv	
TLA	.tla	
TSX	.tsx	
TXL	.txl	
Tact	.tact	
Talon	.talon	
Tape	.tape	
Tcl	.adp .sdc .tcl .tcl.in .tm .xdc	owh|starfield
Tcsh	.csh .tcsh	
TeX	.aux .bbx .cbx .cls .dtx .ins .lbx .ltx .mkii .mkiv .mkvi .sty .tex	
Tea	.tea	
Teal	.tl	
Terraform Template	.tftpl	
Thrift	.thrift	
Toit	.toit	
Tolk	.tolk	
Turing	.tu	
Twig	.twig	
TypeScript	.cts .mts .ts	
Typst	.typ	
Unified Parallel C	.upc	
Uno	.uno	
UnrealScript	.uc	
Untyped Plutus Core	.uplc	
UrWeb	.ur .urs	
VBA	.vba	
VBScript	.vbs	
VCL	.vcl	
VHDL	.vhd .vhdl .vhf .vhi .vho .vhs .vht .vhw	
Vala	.vala .vapi	
Velocity Template Language	.vtl	
Vento	.vto	
Verilog	.v .veo	
Verse	.verse	
Vim Snippet	.snip .snippet .snippets	
Vim script	.vim .vimrc .vmb	.exrc|.gvimrc|.nvimrc|.vimrc|_vimrc|gvimrc|nvimrc|vimrc
Visual Basic .NET	.vb .vbhtml	
Visual Basic 6.0	.bas .ctl .dsr	
Volt	.volt	
Vue	.vue	
Vyper	.vy	
WDL	.wdl	
WGSL	.wgsl	
WebAssembly	.wast .wat	
WebIDL	.webidl	
Whiley	.whiley	
Witcher Script	.ws	
Wolfram Language	.cdf .ma .mathematica .mt .nbp .wl .wls .wlt	
Wollok	.wlk	
Wren	.wren	
X10	.x10	
XC	.xc	
XProc	.xpl .xproc	
XQuery	.xq .xql .xqm .xquery .xqy	
XS	.xs	
XSLT	.xsl .xslt	
Xmake		xmake.lua
Xojo	.xojo_code .xojo_menu .xojo_report .xojo_script .xojo_toolbar .xojo_window	
Xonsh	.xsh	
Xtend	.xtend	
YARA	.yar .yara	
YASnippet	.yasnippet	
Yacc	.y .yacc	
Yul	.yul	
ZAP	.xzap .zap	
ZIL	.mud .zil	
Zeek	.bro .zeek	
ZenScript	.zs	
Zephir	.zep	
Zig	.zig .zig.zon	
Zimpl	.zimpl .zmpl .zpl	
eC	.ec .eh	
fish	.fish	
hoon	.hoon	
kvlang	.kv	
mIRC Script	.mrc	
mcfunction	.mcfunction	
mupad	.mu	
nesC	.nc	
ooc	.ooc	
q	.q	
sed	.sed	
templ	.templ	
wisp	.wisp	
xBase	.prg .prw	
"""


def load() -> tuple[dict[str, str], dict[str, str]]:
    """({extension in lower case: language}, {whole file name: language})."""
    extensions: dict[str, str] = {}
    names: dict[str, str] = {}
    for line in TABLE.splitlines():
        language, suffixes, whole = line.split("\t")
        extensions.update((suffix, language) for suffix in suffixes.split())
        names.update((name, language) for name in whole.split("|") if name)
    return extensions, names


def language_of(name: str, tables: tuple[dict[str, str], dict[str, str]]) -> str | None:
    """The language of a file called `name` (no folders), or None."""
    extensions, names = tables
    if name in names:
        return names[name]
    lower = name.lower()
    dot = lower.find(".", 1)
    while dot > 0:
        if lower[dot:] in extensions:
            return extensions[lower[dot:]]
        dot = lower.find(".", dot + 1)
    return None
