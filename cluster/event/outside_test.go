package event

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

// checked is a body that can tell whether it can be what it says.
type checked interface{ Check() error }

// TestOutsideRefuses: each field has bounds.
func TestOutsideRefuses(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	w := WorkerEnrolled{Worker: cluster.OutsideID(key), Key: key, Owner: "user:ann", Name: "attic", Zone: "home"}
	tok := AccessSet{ID: "abcdefghijklmnop", Hash: cluster.Hash{1}, Owner: "user:ann", Roles: []string{"submit", "watch", "work"}, Expires: math.MaxInt64}
	g := GatewayOpened{URL: "https://gw.example.org:8443", KID: "k1", Key: key, Store: "redis", Until: 1}
	long := strings.Repeat("a", 300)
	for name, c := range map[string]struct {
		body checked
		want string // in the error; empty: none
	}{
		"worker":                 {w, ""},
		"worker of a host":       {with(w, func(b *WorkerEnrolled) { b.Owner, b.Trusted = "node:n1", true }), ""},
		"worker, only what must": {with(w, func(b *WorkerEnrolled) { b.Name, b.Zone = "", "" }), ""},
		"short key":              {with(w, func(b *WorkerEnrolled) { b.Key = key[1:] }), "key of 31 bytes"},
		"no key":                 {with(w, func(b *WorkerEnrolled) { b.Key = nil }), "key of 0 bytes"},
		"another's id":           {with(w, func(b *WorkerEnrolled) { b.Worker = cluster.OutsideID(nil) }), "the id of this key is " + string(w.Worker)},
		"a host's name":          {with(w, func(b *WorkerEnrolled) { b.Worker = "n1" }), "the id of this key"},
		"no owner":               {with(w, func(b *WorkerEnrolled) { b.Owner = "" }), "owner"},
		"a visitor":              {with(w, func(b *WorkerEnrolled) { b.Owner, b.Trusted = "visitor:x", true }), "a visitor"},
		"no user's name":         {with(w, func(b *WorkerEnrolled) { b.Owner, b.Trusted = "user:Ann", true }), "not the name of a user"},
		"a host's, not trusted":  {with(w, func(b *WorkerEnrolled) { b.Owner = "node:n1" }), "not trusted"},
		"name with a blank":      {with(w, func(b *WorkerEnrolled) { b.Name = "my pc" }), "name"},
		"name with an escape":    {with(w, func(b *WorkerEnrolled) { b.Name = "\x1b[2J" }), "name"},
		"long name":              {with(w, func(b *WorkerEnrolled) { b.Name = long }), "name"},
		"long zone":              {with(w, func(b *WorkerEnrolled) { b.Zone = long }), "zone"},
		"revoked":                {WorkerRevoked{Worker: w.Worker}, ""},
		"revoked host":           {WorkerRevoked{Worker: "n1"}, "no outside worker"},
		"all others revoked":     {WorkerRevoked{Worker: cluster.OutsideOthers}, "no outside worker"},
		"token":                  {tok, ""},
		"revoked token":          {with(tok, func(b *AccessSet) { b.Roles = nil }), ""},
		"short id":               {with(tok, func(b *AccessSet) { b.ID = b.ID[1:] }), "no id"},
		"id in capitals":         {with(tok, func(b *AccessSet) { b.ID = strings.ToUpper(b.ID) }), "no id"},
		"no hash":                {with(tok, func(b *AccessSet) { b.Hash = cluster.Hash{} }), "no hash"},
		"a host's token":         {with(tok, func(b *AccessSet) { b.Owner = "node:n1" }), "a token is a user's"},
		"a nameless user's":      {with(tok, func(b *AccessSet) { b.Owner = "user:" }), "owner"},
		"never":                  {with(tok, func(b *AccessSet) { b.Expires = 0 }), "expires"},
		"before all time":        {with(tok, func(b *AccessSet) { b.Expires = -1 }), "expires"},
		"another role":           {with(tok, func(b *AccessSet) { b.Roles = []string{"operator"} }), "roles"},
		"twice the same role":    {with(tok, func(b *AccessSet) { b.Roles = []string{"work", "work"} }), "roles"},
		"roles out of order":     {with(tok, func(b *AccessSet) { b.Roles = []string{"work", "submit"} }), "roles"},
		"gateway":                {g, ""},
		"gateway without TLS":    {with(g, func(b *GatewayOpened) { b.URL = "http://10.0.0.1" }), ""},
		"another scheme":         {with(g, func(b *GatewayOpened) { b.URL = "javascript:alert(1)" }), "url"},
		"long url":               {with(g, func(b *GatewayOpened) { b.URL += long }), "url"},
		"no kid":                 {with(g, func(b *GatewayOpened) { b.KID = "" }), "kid"},
		"long kid":               {with(g, func(b *GatewayOpened) { b.KID = long }), "kid"},
		"key of another size":    {with(g, func(b *GatewayOpened) { b.Key = append(b.Key, 1) }), "key of 33 bytes"},
		"another store":          {with(g, func(b *GatewayOpened) { b.Store = "disk" }), "no store"},
		"no end":                 {with(g, func(b *GatewayOpened) { b.Until = 0 }), "until"},
	} {
		err := c.body.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}

func with[T any](body T, change func(*T)) T {
	if b, ok := any(&body).(*GatewayOpened); ok {
		b.Key = bytes.Clone(b.Key)
	}
	change(&body)
	return body
}

// FuzzOutside reads bodies that others wrote: what is accepted is bounded, and is the
// same when it is written and read again.
func FuzzOutside(f *testing.F) {
	for _, k := range KindTable() {
		if k.Kind.Since() == 4 {
			text, err := json.Marshal(k.Body)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Add([]byte(`{"worker":"w-others","roles":["work"],"expires":1e18,"key":""}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		again[WorkerEnrolled](t, text)
		again[WorkerRevoked](t, text)
		again[AccessSet](t, text)
		again[GatewayOpened](t, text)
	})
}

func again[T checked](t *testing.T, text []byte) {
	var a, b T
	if json.Unmarshal(text, &a) != nil || a.Check() != nil {
		return
	}
	once, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(once, &b); err != nil || b.Check() != nil {
		t.Fatalf("%s: %v, %v", once, err, b.Check())
	}
	if twice, err := json.Marshal(b); err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%s, then %s", once, twice)
	}
}
