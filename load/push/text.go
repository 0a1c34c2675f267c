package push

import (
	"encoding/csv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

var csvHead = []string{"time", "seconds", "run", "test", "step", "requests", "failed", "dropped", "p50_ms", "p95_ms", "p99_ms", "max_ms", "users", "queue"}

// csvLines is a window as lines of RFC 4180, one a step; the columns are those of csvHead.
func csvLines(r Run, w Window) []byte {
	var b strings.Builder
	out := csv.NewWriter(&b)
	for _, s := range w.Steps {
		_ = out.Write([]string{ // to memory
			w.At.UTC().Format("2006-01-02T15:04:05.000Z"), decimal(w.Span.Seconds()), r.ID, r.Name, s.Name,
			count(s.requests()), count(s.failed()), count(s.Classes[classDropped]),
			millis(s.P50), millis(s.P95), millis(s.P99), millis(s.Max), strconv.Itoa(w.Users), strconv.Itoa(w.Queue),
		})
	}
	out.Flush()
	return []byte(b.String())
}

// influxLines is a window in InfluxDB's line protocol, a point a step and one of the run.
// A point that is written twice is the same point.
func influxLines(r Run, w Window) []byte {
	var b []byte
	at := w.At.UnixNano()
	tags := ",run=" + influxTag(r.ID) + ",test=" + influxTag(r.Name)
	for _, s := range w.Steps {
		b = append(b, "skein_load"+tags+",step="+influxTag(s.Name)+" requests="+count(s.requests())+"i,failed="+count(s.failed())+"i"...)
		for _, class := range slices.Sorted(maps.Keys(s.Classes)) {
			b = append(b, ","+influxTag(class)+"="+count(s.Classes[class])+"i"...)
		}
		if s.Max > 0 {
			b = append(b, ",p50="+decimal(s.P50)+",p95="+decimal(s.P95)+",p99="+decimal(s.P99)+",max="+decimal(s.Max)...)
		}
		b = append(b, ' ')
		b = append(strconv.AppendInt(b, at, 10), '\n')
	}
	b = append(b, "skein_load_run"+tags+" users="+strconv.Itoa(w.Users)+"i,queue="+strconv.Itoa(w.Queue)+"i "...)
	return append(strconv.AppendInt(b, at, 10), '\n')
}

var influxEscapes = strings.NewReplacer(`\`, `\\`, ",", `\,`, "=", `\=`, " ", `\ `, "\n", `\ `, "\r", `\ `, "\t", `\ `)

// influxTag escapes a tag; an empty one is none, and the protocol has no word for it.
func influxTag(s string) string {
	if s == "" {
		return "-"
	}
	return influxEscapes.Replace(strings.TrimRight(s, `\`))
}

// mostDatagram is what passes every network in one piece.
const mostDatagram = 1400

// statsdDatagrams is a window as lines of StatsD, in datagrams: counters of what was
// counted, gauges in milliseconds.
func statsdDatagrams(r Run, w Window) [][]byte {
	var lines []string
	base := "skein.load." + statsdName(r.Name) + "."
	add := func(name, value, kind string) { lines = append(lines, base+name+":"+value+"|"+kind+"\n") }
	for _, s := range w.Steps {
		step := statsdName(s.Name) + "."
		for _, class := range slices.Sorted(maps.Keys(s.Classes)) {
			add(step+class, count(s.Classes[class]), "c")
		}
		if s.Max > 0 {
			add(step+"p50", millis(s.P50), "g")
			add(step+"p95", millis(s.P95), "g")
			add(step+"p99", millis(s.P99), "g")
			add(step+"max", millis(s.Max), "g")
		}
	}
	add("users", strconv.Itoa(w.Users), "g")
	add("queue", strconv.Itoa(w.Queue), "g")
	var out [][]byte
	var one []byte
	for _, l := range lines {
		if len(one) > 0 && len(one)+len(l) > mostDatagram {
			out, one = append(out, one), nil
		}
		one = append(one, l...)
	}
	return append(out, one)
}

// statsdName has no character that means something to StatsD or Graphite.
func statsdName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "_"
	}
	return s[:min(len(s), 100)]
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func decimal(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func millis(seconds float64) string {
	return strconv.FormatFloat(float64(time.Duration(seconds*float64(time.Second)).Microseconds())/1000, 'f', -1, 64)
}
