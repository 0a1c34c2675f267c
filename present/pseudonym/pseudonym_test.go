package pseudonym

import (
	"bytes"
	"compress/gzip"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
)

var onionPub = []byte("the public key of an onion addr!")

func onionAddress() string {
	return strings.ToLower(base32.StdEncoding.EncodeToString(append(bytes.Clone(onionPub), 1, 2, 3)))
}

func known() *Names {
	n := New()
	n.Add(Host, "n1")
	n.Add(Host, "n1-old")
	n.Add(Host, "berlin")
	n.Add(Host, "7")
	n.Add(User, "alice")
	n.Add(User, ".bob-")
	n.Add(Domain, "vpn.example.org")
	n.Add(Zone, "east_1")
	return n
}

func TestText(t *testing.T) {
	n := known()
	address := onionAddress()
	for _, c := range [][2]string{
		{"n1/1:404 n1,n10 xn1 n1x N1.", "host-1/1:404 host-1,n10 xn1 n1x host-1."},
		{"n1-old n1-older skein_n1_x", "host-2 host-1-older skein_host-1_x"},
		{"BERLIN, Berlin: berlins", "host-3, host-3: berlins"},
		{"user:alice@n1 uid:1000@berlin user:.bob-", "user:user-1@host-1 uid:1000@host-3 user:user-2"},
		{"lookup vpn.example.org: east_1, east_12", "lookup domain-1: zone-1, east_12"},
		{"10.0.0.1:51820 10.0.0.2. 10.0.0.1/24", "198.18.0.1:51820 198.18.0.2. 198.18.0.1/24"},
		{"[fd00::1]:51820 fd00::1 fe80::2%eth0 fd00::1:51820", "[2001:db8::3]:51820 2001:db8::3 2001:db8::4%eth0 2001:db8::3:51820"},
		{"::ffff:10.0.0.1", "::ffff:198.18.0.1"},
		{"127.0.0.1 ::1 0.0.0.0 [::]:80 12:39:30 2026-01-02T03:04:05.678Z v1.2.3 1.5 abc:def", "127.0.0.1 ::1 0.0.0.0 [::]:80 12:39:30 2026-01-02T03:04:05.678Z v1.2.3 1.5 abc:def"},
		{"http://" + address + ".onion/ " + strings.ToUpper(address), "http://onion-1.onion/ onion-1"},
		{"7 of 77", "host-4 of 77"},
		{"\xff\xfen1\xff", "\xff\xfehost-1\xff"},
		{"", ""},
	} {
		if got := string(n.Text([]byte(c[0]))); got != c[1] {
			t.Errorf("%q is %q, want %q", c[0], got, c[1])
		}
	}
	if p := n.Pairs(); len(p) != 13 || p[0] != (Pair{Host, "n1", "host-1"}) {
		t.Errorf("%d pairs: %v", len(p), p)
	}
}

// TestJSON: an escape hides no name, a name breaks no escape, and a number is none.
func TestJSON(t *testing.T) {
	n := known()
	n.Learn([]byte(onionAddress()))
	std, url := base64.StdEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	in := func(s string) []byte { return []byte("\x01\x02" + s + "\x00 and other bytes") }
	for _, c := range [][2]string{
		{`{"node":"n1","n1":7,"seven":"7"}`, `{"node":"host-1","host-1":7,"seven":"host-4"}`},
		{`{"err":"a\n1 b\n\u006e1 c\tn1"}`, `{"err":"a\n1 b\nhost-1 c\thost-1"}`},
		{`{"a":"x\\n1 <n1>"}`, `{"a":"x\\host-1 <host-1>"}`},
		{`{"plain":"\u003c\n1 stays \ud83d\ude00"}`, `{"plain":"\u003c\n1 stays \ud83d\ude00"}`},
		{`skein_peer{peer="n1",instance="10.0.0.1:9"} 7` + "\n", `skein_peer{peer="host-1",instance="198.18.0.1:9"} 7` + "\n"},
		{`{"raw":"` + std(in("alice")) + `","hash":"` + strings.Repeat("ab", 32) + `"}`, `{"raw":"[left out]","hash":"` + strings.Repeat("ab", 32) + `"}`},
		{`{"cert":"` + url(in("n1")) + "." + url(bytes.Repeat([]byte{0xff}, 64)) + `"}`, `{"cert":"[left out].` + url(bytes.Repeat([]byte{0xff}, 64)) + `"}`},
		{`{"hex":"` + hex.EncodeToString(in("berlin")) + `"}`, `{"hex":"[left out]"}`},
		{`{"key":"` + std(onionPub) + `","other":"` + std([]byte("The public key of an onion addr!")) + `"}`, `{"key":"[left out]","other":"` + std([]byte("The public key of an onion addr!")) + `"}`},
		{`{"a":"\x"}`, `{"a":"[left out]"}`},
		{`{"cut":"of n1 and al` + "\n" + `{"b":"n1"}`, `{"cut":"of host-1 and al` + "\n" + `{"b":"host-1"}`},
		{`{"cut":"n1 \ud83d\u`, `{"cut":"host-1 `},
		{`n1 "n1" n1`, `host-1 "host-1" host-1`},
	} {
		got := n.JSON([]byte(c[0]))
		if string(got) != c[1] && (!strings.Contains(c[0], `\ud83d\u`) || !strings.HasPrefix(string(got), c[1])) {
			t.Errorf("%s\nis   %s\nwant %s", c[0], got, c[1])
		}
		if json.Valid([]byte(c[0])) && !json.Valid(got) {
			t.Errorf("%s is no JSON any more: %s", c[0], got)
		}
	}
}

func TestLearn(t *testing.T) {
	n := New()
	n.Learn([]byte(`{"cluster":"blue","node":"n1","members":[{"node":"n2","zone":"north","state":"alive"},{"node":"not a name"}],
		"actor":"user:carol@n2","err":"dial tcp: lookup gate.example.net on 10.0.0.1:53","url":"https://groups.example.com/x","at":"db.example.org:5432",
		"file":"main.go:12","dir":"/home/dave/skein","onion":"` + onionAddress() + `.onion:80"}
	{"node":"n3"}`))
	n.Learn([]byte("no JSON of user:erin"))
	n.Learn([]byte(`{"node":"` + strings.Repeat("x", 300) + `"`))
	got := []string{}
	for _, p := range n.Pairs() {
		got = append(got, string(p.Kind)+" "+p.Name)
	}
	slices.Sort(got)
	want := []string{
		"cluster blue", "domain db.example.org", "domain gate.example.net", "domain groups.example.com", "host n1", "host n2", "host n3",
		"onion " + onionAddress(), "user carol", "user dave", "user erin", "zone north",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// TestProfile: a profile keeps its form, and its strings have no names.
func TestProfile(t *testing.T) {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 0); err != nil {
		t.Fatal(err)
	}
	n := New()
	n.Add(User, "runtime") // as if somebody were called so: it is there for sure
	out, err := n.Profile(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	unpacked := func(packed []byte) []byte {
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	was, is := unpacked(b.Bytes()), unpacked(out)
	if !bytes.Contains(was, []byte("runtime.")) || bytes.Contains(is, []byte("runtime.")) || !bytes.Contains(is, []byte("user-1.")) {
		t.Error("the names are as they were")
	}
	back := New()
	back.Add("runtime", "user-1")
	again, err := back.Profile(out)
	if err != nil || len(unpacked(again)) < len(was)/2 {
		t.Errorf("what was written cannot be read again: %v", err)
	}
	for _, bad := range [][]byte{nil, []byte("no gzip"), gzipped(t, []byte{0x32, 0xff}), gzipped(t, []byte{0x33}), gzipped(t, []byte{0x80})} {
		if out, err := n.Profile(bad); err == nil {
			t.Errorf("%x is a profile: %x", bad, out)
		}
	}
}

func gzipped(t *testing.T, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(raw); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// FuzzJSON: whatever the text, no known name is left as a word, and JSON stays JSON.
func FuzzJSON(f *testing.F) {
	f.Add(`{"a":"n1 berlin\n1"}`)
	f.Add("\"\\u006e1\" n1 \"cut n1\\u00\n7")
	f.Add(`"AQJuMQA="`)
	f.Fuzz(func(t *testing.T, text string) {
		n := known()
		got := n.JSON([]byte(text))
		if json.Valid([]byte(text)) && !json.Valid(got) {
			t.Fatalf("%q becomes %q", text, got)
		}
		if again := n.JSON(got); !bytes.Equal(again, got) && !strings.Contains(string(got), "198.18.") && !strings.Contains(string(got), "2001:db8:") {
			t.Fatalf("%q has names: then it is %q", got, again)
		}
	})
}
