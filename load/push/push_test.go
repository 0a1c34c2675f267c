package push

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

var (
	start = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	run   = Run{ID: "l2ab", Name: "shop, eu", Start: start}
)

// window is the n-th second of a run.
func window(n int) Window {
	return Window{At: start.Add(time.Duration(n) * time.Second), Span: time.Second, Users: 7, Queue: 1, Steps: []Step{
		{Name: "log in", Classes: map[string]uint64{"ok": 10, "timeout": 2, "dropped": 1}, P50: 0.021, P95: 0.066, P99: 0.11, Max: 0.402},
		{Name: "pay=x", Classes: map[string]uint64{}},
	}}
}

func TestCSV(t *testing.T) {
	lines, err := csv.NewReader(bytes.NewReader(csvLines(run, window(1)))).ReadAll()
	want := [][]string{
		{"2026-11-28T12:00:01.000Z", "1", "l2ab", "shop, eu", "log in", "12", "3", "1", "21", "66", "110", "402", "7", "1"},
		{"2026-11-28T12:00:01.000Z", "1", "l2ab", "shop, eu", "pay=x", "0", "0", "0", "0", "0", "0", "0", "7", "1"},
	}
	if err != nil || !reflect.DeepEqual(lines, want) {
		t.Errorf("%v\n%q\nwant\n%q", err, lines, want)
	}
}

func TestInflux(t *testing.T) {
	want := `skein_load,run=l2ab,test=shop\,\ eu,step=log\ in requests=12i,failed=3i,dropped=1i,ok=10i,timeout=2i,p50=0.021,p95=0.066,p99=0.11,max=0.402 1795867201000000000
skein_load,run=l2ab,test=shop\,\ eu,step=pay\=x requests=0i,failed=0i 1795867201000000000
skein_load_run,run=l2ab,test=shop\,\ eu users=7i,queue=1i 1795867201000000000
`
	if got := string(influxLines(run, window(1))); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := influxTag("a\nb\\"); got != `a\ b` {
		t.Errorf("a tag is %q", got)
	}
}

func TestStatsD(t *testing.T) {
	want := "skein.load.shop__eu.log_in.dropped:1|c\nskein.load.shop__eu.log_in.ok:10|c\nskein.load.shop__eu.log_in.timeout:2|c\n" +
		"skein.load.shop__eu.log_in.p50:21|g\nskein.load.shop__eu.log_in.p95:66|g\nskein.load.shop__eu.log_in.p99:110|g\n" +
		"skein.load.shop__eu.log_in.max:402|g\nskein.load.shop__eu.users:7|g\nskein.load.shop__eu.queue:1|g\n"
	if got := statsdDatagrams(run, window(1)); len(got) != 1 || string(got[0]) != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	w := window(1)
	for range 6 {
		w.Steps = append(w.Steps, w.Steps...)
	}
	all := statsdDatagrams(run, w)
	for _, d := range all {
		if len(d) > mostDatagram || !bytes.HasSuffix(d, []byte("\n")) {
			t.Errorf("a datagram of %d bytes", len(d))
		}
	}
	if n := bytes.Count(bytes.Join(all, nil), []byte("\n")); n != 64*7+2 {
		t.Errorf("%d lines", n)
	}
}

// written reads what writeRequest made, with the decoders of others.
func written(t *testing.T, body []byte) map[string]float64 {
	t.Helper()
	b, err := snappy.Decode(nil, body)
	if err != nil {
		t.Fatal(err)
	}
	fields := func(b []byte, each func(n protowire.Number, b []byte)) {
		for len(b) > 0 {
			num, typ, n := protowire.ConsumeTag(b)
			size := protowire.ConsumeFieldValue(num, typ, b[max(n, 0):])
			if n < 0 || size < 0 {
				t.Fatal("no protobuf")
			}
			content := b[n : n+size]
			if typ == protowire.BytesType {
				content, _ = protowire.ConsumeBytes(content)
			}
			each(num, content)
			b = b[n+size:]
		}
	}
	out := map[string]float64{}
	fields(b, func(_ protowire.Number, series []byte) {
		var name string
		var v float64
		var names []string
		fields(series, func(n protowire.Number, b []byte) {
			if n == 1 {
				var l [2]string
				fields(b, func(n protowire.Number, b []byte) { l[n-1] = string(b) })
				names = append(names, l[0])
				name += l[0] + "=" + l[1] + ";"
				return
			}
			fields(b, func(n protowire.Number, b []byte) {
				if n == 1 {
					v = math.Float64frombits(binary.LittleEndian.Uint64(b))
				} else if at, _ := protowire.ConsumeVarint(b); int64(at)%1000 != 0 || int64(at) < start.UnixMilli() {
					t.Errorf("at %d", at)
				}
			})
		})
		if !slices.IsSorted(names) {
			t.Errorf("labels are not in order: %s", names)
		}
		out[name] = v
	})
	return out
}

// TestRemoteWrite: counters rise over the run, and begin again where counting does.
func TestRemoteWrite(t *testing.T) {
	sums := totals{}
	for n, want := range []float64{10, 20, 10} {
		w := window(n + 1)
		w.Again = n == 2
		sums.add(w)
		got := written(t, writeRequest(samples(run, w, sums), w.At.UnixMilli()))
		for name, v := range map[string]float64{
			"__name__=skein_load_requests_total;class=ok;run=l2ab;step=log in;test=shop, eu;":       want,
			"__name__=skein_load_latency_seconds;quantile=0.99;run=l2ab;step=log in;test=shop, eu;": 0.11,
			"__name__=skein_load_users;run=l2ab;test=shop, eu;":                                     7,
			"__name__=skein_load_requests_total;class=timeout;run=l2ab;step=log in;test=shop, eu;":  want / 5,
			"__name__=skein_load_latency_seconds;quantile=1;run=l2ab;step=log in;test=shop, eu;":    0.402,
			"__name__=skein_load_requests_total;class=dropped;run=l2ab;step=log in;test=shop, eu;":  want / 10,
			"__name__=skein_load_queue;run=l2ab;test=shop, eu;":                                     1,
			"__name__=skein_load_latency_seconds;quantile=0.5;run=l2ab;step=log in;test=shop, eu;":  0.021,
			"__name__=skein_load_latency_seconds;quantile=0.95;run=l2ab;step=log in;test=shop, eu;": 0.066,
		} {
			if got[name] != v {
				t.Errorf("window %d: %s is %g, want %g", n+1, name, got[name], v)
			}
			delete(got, name)
		}
		if len(got) > 0 {
			t.Errorf("also %v", got)
		}
	}
}

func TestOTLP(t *testing.T) {
	sums := totals{}
	w := window(1)
	sums.add(w)
	var got otlpRequest
	d := json.NewDecoder(bytes.NewReader(otlpExport(run, w, sums)))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	metrics := got.ResourceMetrics[0].ScopeMetrics[0].Metrics
	if len(metrics) != 4 || metrics[0].Sum == nil || len(metrics[0].Sum.Points) != 3 || len(metrics[1].Gauge.Points) != 4 {
		t.Fatalf("%+v", metrics)
	}
	p := metrics[0].Sum.Points[1]
	if p.Double != 10 || p.Time != "1795867201000000000" || p.Start != "1795867200000000000" || !slices.Contains(p.Attributes, attribute("class", "ok")) {
		t.Errorf("%+v", p)
	}
}

// taker is a server that keeps what it is sent, once it answers 200.
type taker struct {
	mu      sync.Mutex
	answers []int // of the first requests; then 200
	taken   []string
	head    http.Header
	paths   []string
}

func (k *taker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.head = r.Header
	k.paths = append(k.paths, r.URL.String())
	if len(k.answers) > 0 {
		code := k.answers[0]
		k.answers = k.answers[1:]
		http.Error(w, "no", code)
		return
	}
	k.taken = append(k.taken, string(body))
}

func TestOutputs(t *testing.T) {
	k := &taker{answers: []int{503, 429}}
	srv := httptest.NewServer(k)
	defer srv.Close()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	file := filepath.Join(t.TempDir(), "windows.csv")
	var mu sync.Mutex
	var warnings []string
	texts := []string{"influx=" + srv.URL + "/write?db=load", "csv=" + file, "statsd=" + socket.LocalAddr().String()}
	for _, text := range texts {
		if err := Check(text); err != nil || !Is(text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	out, err := Open(run, texts, Options{Token: "secret", Agent: "skein/test", Warn: func(s string) {
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, s)
	}})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := range 3 {
		out.Send(window(n + 1))
		want = append(want, string(influxLines(run, window(n+1))))
	}
	out.Close()
	if !slices.Equal(k.taken, want) || k.head.Get("Authorization") != "Token secret" || k.paths[0] != "/write?db=load" {
		t.Errorf("InfluxDB was sent %q, %v", k.taken, k.head)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "503") {
		t.Errorf("warnings %q", warnings)
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.Count(text, []byte("\n")) != 1+3*2 {
		t.Errorf("%v, the file has\n%s", err, text)
	}
	b := make([]byte, 2*mostDatagram)
	n, _, err := socket.ReadFrom(b)
	if err != nil || !slices.Equal(b[:n], statsdDatagrams(run, window(1))[0]) {
		t.Errorf("%v, StatsD was sent %q", err, b[:n])
	}
}

// TestRefusedIsNotRepeated: what an output refuses is lost to it, and the next is sent.
func TestRefusedIsNotRepeated(t *testing.T) {
	k := &taker{answers: []int{400}}
	srv := httptest.NewServer(k)
	defer srv.Close()
	out, err := Open(run, []string{"otlp=" + srv.URL}, Options{Warn: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	out.Send(window(1))
	out.Send(window(2))
	out.Close()
	if len(k.taken) != 1 || !strings.Contains(k.taken[0], `"asDouble":20`) {
		t.Errorf("%q", k.taken)
	}
}

// TestQueueIsBounded: an output that takes nothing holds a number of windows, and what
// they count is whole.
func TestQueueIsBounded(t *testing.T) {
	o := &output{news: make(chan struct{}, 1)}
	all := &Outputs{all: []*output{o}}
	for n := range 2 * waiting {
		all.Send(window(n + 1))
	}
	sums := totals{}
	for _, w := range o.queue {
		sums.add(w)
	}
	if len(o.queue) != waiting || sums[[2]string{"log in", "ok"}] != 10*2*waiting {
		t.Errorf("%d windows with %v", len(o.queue), sums)
	}
}

func TestBadOutputs(t *testing.T) {
	for text, want := range map[string]string{
		"csv=":                         "names no file",
		"statsd=localhost":             "HOST:PORT",
		"influx=ftp://x/":              "no http or https",
		"prometheus=http://u:pw@":      "no http or https",
		"otlp=":                        "no http or https",
		"kafka=x":                      "use one of csv, influx",
		"prometheus=:::pw@x/\x00write": "no http or https",
	} {
		err := Check(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if Is("report.html") || Is("a=b.csv") {
		t.Error("a file is taken for an output")
	}
}
