package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// lines leaves of uPlot what draws lines over time on straight scales. Other shapes and
// scales, its own legend, pointer, hooks and words for times would make it twice as
// large; what is left out is never called, or does nothing for such charts.
var lines = api.Plugin{Name: "lines", Setup: func(b api.PluginBuild) {
	b.OnLoad(api.OnLoadOptions{Filter: `[/\\\\]uPlot\.esm\.js$`}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		text, err := os.ReadFile(a.Path)
		if err != nil {
			return api.OnLoadResult{}, err
		}
		made, err := linesOnly(string(text))
		if err != nil {
			return api.OnLoadResult{}, fmt.Errorf("%s: %w", a.Path, err)
		}
		return api.OnLoadResult{Contents: &made, Loader: api.LoaderJS}, nil
	})
}}

// unused are functions that no such chart calls, or that do nothing for it.
var unused = []string{
	"fmtDate", "points", "rangeLog", "rangeAsinh", "logAxisSplits", "asinhAxisSplits", "log10AxisValsFilt", "log2AxisValsFilt", "snapLogY", "snapAsinhY",
	"genTimeStuffs", "tzDate", "timeAxisStamps", "timeAxisVals", "timeAxisVal", "timeSeriesStamp", "timeSeriesVal", "legendStroke", "legendFill", "initLegendRow", "syncLegend", "setLegend",
	"setLegendValues", "delSeries", "setSeries", "setFocus", "setAlpha", "setSelect", "toggleDOM", "initCursorPt", "updateCursor", "cacheMouse",
	"mouseMove", "mouseDown", "mouseUp", "mouseLeave", "dblClick", "onMouse", "syncRect", "fire", "pub", "pubSync", "addBand", "setBand", "delBand",
	"offMouse", "filtBtn0", "filtTarg", "seriesPointsShow", "posToVal", "closestIdxFromXpos", "setSelH", "setSelV", "hideSelect",
}

// settled are conditions and values that are the same for every such chart.
var settled = []struct{ of, is string }{
	{`(?m)^\s*const (showCursor|showLegend|cursorFocus|cursorOnePt)\s*=.*$`, ""},
	{`\b(showCursor|showLegend|cursorFocus|cursorOnePt|select\.show)\b`, "false"},
	{`cursor\.dataIdx == null`, "false"},
	{`\bmode == 2\b`, "false"},
	{`\bmode == 1\b`, "true"},
	{`\b(\w+\.distr|xScaleDistr|distr) *== *(2|3|4|100)\b`, "false"},
	{`\b\w+\.distr *== *1\b`, "true"},
	{`\b\w+\.distr *>= *3\b`, "false"},
	{`\blegend\.(show|live)\b`, "false"},
	// Where and how times stand at an axis says the page, and what one may call from outside.
	{`(?m)^\s*let isTime\s*=.*$`, ""},
	{`\bisTime\b`, "false"},
	{`\bscaleX\.time\b`, "true"},
	{`(?m)^(\s*const _(tzDate|timeAxisSplits|timeAxisVals|timeSeriesVal)\b|const \[ timeIncrs).*$`, ""},
	{`(?s)const (months|days) = \[.*?\n\t*\];`, "const $1 = [];"},
	{`(?s)const subs = \{.*?\n\};`, ""},
	{`(?s)\nuPlot\.assign = assign;.*\n}\n`, "\n"},
	{`(?s)const cursorOpts = \{.*?\n\};`, "const cursorOpts = {left: -10, top: -10, points: {}, drag: {}};"},
	{`(?s)const legendOpts = \{.*?\n\};`, "const legendOpts = {markers: {}, values: []};"},
	// Charts do not follow each other's pointer.
	{`(?s)\n\tconst syncOpts = assign\(.*?cursor\.sync = syncOpts;`, ""},
	{`(?m)^\s*(const sync|const syncKey|sync\.sub|sync\.unsub|self\.pub)\b.*$`, ""},
	{`(?s)events\["setSeries"\] = .*?\n\t};`, ""},
}

// linesOnly is uPlot without what lines need not.
func linesOnly(text string) (string, error) {
	for _, name := range unused {
		find := func(tab string) string {
			return regexp.MustCompile(`(?s)\n` + tab + `function ` + name + `\(.*?\n` + tab + `}\n`).FindString(text)
		}
		whole := cmp.Or(find(""), find("\t")) // one that lies in another is indented
		if whole == "" {
			return "", fmt.Errorf("there is no function %s", name)
		}
		text = strings.Replace(text, whole, "\nfunction "+name+"() {}\n", 1)
	}
	for _, s := range settled {
		re := regexp.MustCompile(s.of)
		if !re.MatchString(text) {
			return "", fmt.Errorf("there is no %s", s.of)
		}
		text = re.ReplaceAllString(text, s.is)
	}
	return text, nil
}
