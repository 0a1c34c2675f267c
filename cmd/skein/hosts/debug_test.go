package hosts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
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
	})
	var have []string
	for i, f := range h.Files {
		have = append(have, fmt.Sprintf("%s %q %s", f.Name, h.texts[i], f.Error))
	}
	want := `status.json "{}" |bomb.txt "" a host gives at most 8388608 bytes|noise.txt "" unpack: gzip: invalid header|doctor.json "" no answer`
	if got := strings.Join(have, "|"); got != want && !strings.HasPrefix(got, `status.json "{}" |bomb.txt "" a host gives at most 8388608 bytes|noise.txt "" unpack: `) {
		t.Errorf("have %s", got)
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
	var out bytes.Buffer
	if err := writeBundle(&out, time.Unix(1, 0), hosts); err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
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
	var manifest struct{ Hosts []bundleHost }
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest.Hosts) != 3 || manifest.Hosts[2].Error != "not reached" {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
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
