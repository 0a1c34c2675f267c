package hosts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/present/pseudonym"
)

func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestTake: what a hostile host sends is named or left out, and bounded.
func TestTake(t *testing.T) {
	big := packed(t, make([]byte, api.MaxDebugHost+1))
	h := bundleHost{}
	h.take([]api.DebugFile{
		{Name: "status.json", Gzip: packed(t, []byte("{}"))},
		{Name: "status.json", Gzip: packed(t, []byte("again"))},
		{Name: "../../etc/passwd", Gzip: packed(t, []byte("x"))},
		{Name: "a/b.txt"},
		{Name: ""},
		{Name: "bomb.txt", Gzip: big},
		{Name: "noise.txt", Gzip: []byte("no gzip")},
		{Name: "doctor.json", Error: "no answer"},
	}, false)
	var have []string
	for i, f := range h.Files {
		have = append(have, fmt.Sprintf("%s %q %s", f.Name, h.texts[i], f.Error))
	}
	want := `status.json "{}" |bomb.txt "" larger than a host may give|noise.txt "" unpack: gzip: invalid header|doctor.json "" no answer`
	if got := strings.Join(have, "|"); got != want && !strings.HasPrefix(got, `status.json "{}" |bomb.txt "" larger than a host may give|noise.txt "" unpack: `) {
		t.Errorf("have %s", got)
	}
}

// TestTakeLog: the log of the host that was asked takes no room of the others' files, and
// no other host can have as much.
func TestTakeLog(t *testing.T) {
	big := packed(t, make([]byte, api.MaxDebugHost+1))
	files := []api.DebugFile{{Name: api.DebugLogFile, Gzip: big}, {Name: "a.txt", Gzip: packed(t, make([]byte, api.MaxDebugHost))}}
	for _, self := range []bool{true, false} {
		h := bundleHost{}
		h.take(files, self)
		if len(h.Files) != 2 || (h.Files[0].Error == "") != self || h.Files[1].Error != "" {
			t.Errorf("of the host that was asked (%t): %+v", self, h.Files)
		}
	}
	h := bundleHost{}
	h.take([]api.DebugFile{{Name: api.DebugLogFile, Gzip: packed(t, make([]byte, api.MaxDebugLog+1))}}, true)
	if h.Files[0].Error == "" {
		t.Error("a log without bound")
	}
}

// TestWriteBundle reads one back: all that the manifest names is there, with that hash,
// and what exceeds the bound is not.
func TestWriteBundle(t *testing.T) {
	large := make([]byte, maxDebugSize/2)
	hosts := []bundleHost{
		{Node: "n1", Files: []bundleFile{{Name: "a.txt"}, {Name: "b.txt"}}, texts: [][]byte{[]byte("one"), large}},
		{Node: "n2", Files: []bundleFile{{Name: "a.txt"}, {Name: "c.txt", Error: "no answer"}}, texts: [][]byte{large, nil}},
		{Node: "n3", Error: "not reached", Files: []bundleFile{}},
	}
	files, manifest := written(t, bundling{ask: api.DebugAsk{Since: time.Hour}}, hosts)
	if len(manifest.Hosts) != 3 || manifest.Hosts[2].Error != "not reached" || manifest.SinceSeconds != 3600 {
		t.Fatalf("manifest %s", files["manifest.json"])
	}
	named := 1
	for _, h := range manifest.Hosts {
		for _, f := range h.Files {
			text, ok := files[string(h.Node)+"/"+f.Name]
			if ok {
				named++
			}
			if ok != (f.SHA256 != "") || ok && f.SHA256 != fmt.Sprintf("%x", sha256.Sum256(text)) || !ok && f.Error == "" {
				t.Errorf("%s/%s: %+v, there: %t", h.Node, f.Name, f, ok)
			}
		}
	}
	if named != len(files) || len(files) != 3 {
		t.Errorf("%d files, %d named", len(files), named)
	}
}

// TestDisguise plants names of all kinds in every form of file, and looks for them in every
// byte of the bundle.
func TestDisguise(t *testing.T) {
	planted := []string{"planted-host", "planted.user", "plantedzone", "plantedcluster", "planted.domain.example", "192.0.2.77", "2001:db8:77::1", "plantedhome"}
	onion := strings.Repeat("plantedonion2345", 4)[:56]
	all := append(slices.Clone(planted), onion)
	text := strings.Join(all, " and ") + " uid:1000@planted-host user:planted.user http://planted.domain.example:80/ /home/plantedhome/x"
	quote := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	escaped := strings.ReplaceAll(quote(strings.ToUpper(text)), "P", `\u0050`)
	encoded := base64.StdEncoding.EncodeToString([]byte("\x0cplanted-host\x00"))
	view := `{"cluster":"plantedcluster","node":"planted-host","zone":"plantedzone","err":` + quote(text) + `,"escaped":` + escaped + `,"planted-host":{"raw":"` + encoded + `"}}`
	var heap bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&heap, 0); err != nil {
		t.Fatal(err)
	}
	h := bundleHost{Node: "planted-host", Version: "1", Error: "", Files: []bundleFile{}}
	add := func(name, text, err string) {
		h.Files, h.texts = append(h.Files, bundleFile{Name: name, Size: len(text), Error: err}), append(h.texts, []byte(text))
	}
	add("status.json", view, text)
	add("warnings.jsonl", view+"\n"+view[:len(view)/2]+"\n"+text+"\n", "")
	add("log.jsonl", view+"\n", "")
	add("metrics.txt", "# HELP a "+text+"\nskein_peer{peer=\"planted-host\",at=\"192.0.2.77:80\"} 1\n", "")
	add("goroutine.txt", text, "")
	add("heap.pprof", heap.String(), "")
	add("cpu.pprof", text, "") // no profile
	hosts := []bundleHost{h, {Node: "planted-host", Error: text, Files: []bundleFile{}}}
	n := pseudonym.New()
	disguise(n, hosts)
	files, m := written(t, bundling{pseudonyms: true}, hosts)
	if !m.Pseudonyms || len(files) != 7 || m.Hosts[0].Node != "host-1" || !strings.Contains(string(files["manifest.json"]), "proves nothing") {
		t.Errorf("%d files, manifest %s", len(files), files["manifest.json"])
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON any more: %s", name, text)
		}
		for _, p := range append(slices.Clone(all), encoded, "planted") {
			if strings.Contains(strings.ToLower(name+string(text)), strings.ToLower(p)) {
				t.Errorf("%s has %s: %.2000s", name, p, text)
			}
		}
	}
	have := map[string]bool{}
	for _, p := range n.Pairs() {
		have[p.Name] = true
	}
	for _, p := range all {
		if !have[p] {
			t.Errorf("what stands for %s nobody knows", p)
		}
	}
	if got := string(files["host-1/metrics.txt"]); !strings.HasSuffix(got, "skein_peer{peer=\"host-1\",at=\"198.18.0.1:80\"} 1\n") {
		t.Errorf("metrics: %s", got)
	}
}

// manifest is what a test reads of manifest.json.
type manifest struct {
	SinceSeconds float64 `json:"since_seconds"`
	Pseudonyms   bool    `json:"pseudonyms"`
	Hosts        []bundleHost
}

// written reads a bundle back, by name below its folder.
func written(t *testing.T, b bundling, hosts []bundleHost) (files map[string][]byte, m manifest) {
	t.Helper()
	var out bytes.Buffer
	if err := writeBundle(&out, time.Unix(1, 0), b, hosts); err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string][]byte{}
	for archive := tar.NewReader(unzipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Mode != 0o600 {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
		if files[strings.TrimPrefix(h.Name, "skein-debug/")], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(files["manifest.json"], &m); err != nil {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	return files, m
}
