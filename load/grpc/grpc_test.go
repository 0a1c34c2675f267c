package grpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// shop is a service, as its descriptors say it.
const shop = `{"file": [
  {"name": "shop.proto", "package": "shop.v1", "syntax": "proto3",
   "messageType": [
     {"name": "Order", "field": [
       {"name": "order_id", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_INT64", "jsonName": "orderId"},
       {"name": "items", "number": 2, "label": "LABEL_REPEATED", "type": "TYPE_STRING", "jsonName": "items"},
       {"name": "part", "number": 3, "label": "LABEL_OPTIONAL", "type": "TYPE_MESSAGE", "typeName": ".shop.v1.Order", "jsonName": "part"}]}],
   "service": [{"name": "Orders", "method": [
     {"name": "Get", "inputType": ".shop.v1.Order", "outputType": ".shop.v1.Order"},
     {"name": "Watch", "inputType": ".shop.v1.Order", "outputType": ".shop.v1.Order", "serverStreaming": true},
     {"name": "Put", "inputType": ".shop.v1.Order", "outputType": ".shop.v1.Order", "clientStreaming": true}]}]}]}`

// set is a set of descriptors of its JSON.
func set(t testing.TB, text string) []byte {
	t.Helper()
	var all descriptorpb.FileDescriptorSet
	if err := protojson.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(&all)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func callOf(t testing.TB, name string) *Call {
	t.Helper()
	m, err := Parse(set(t, shop))
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Call(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestMessages: what JSON says is what comes back, with the fields that are empty.
func TestMessages(t *testing.T) {
	c := callOf(t, "shop.v1.Orders/Get")
	sent, err := c.Append([]byte("before"), []byte(`{"orderId": "7", "items": ["a", "b"]}`))
	if err != nil {
		t.Fatal(err)
	}
	sent = sent[len("before"):]
	if want := "\x00\x00\x00\x00\x08\x08\x07\x12\x01a\x12\x01b"; string(sent) != want {
		t.Errorf("%q, want %q", sent, want)
	}
	empty, err := c.Append(nil, nil)
	if err != nil || !bytes.Equal(empty, make([]byte, headSize)) {
		t.Errorf("%q, %v", empty, err)
	}
	last, n, err := Last(append(sent, empty...))
	if err != nil || n != 2 || len(last) != 0 {
		t.Fatalf("%q, %d, %v", last, n, err)
	}
	last, _, _ = Last(sent)
	text, err := c.JSON(nil, last)
	if err != nil || compact(t, text) != `{"orderId":"7","items":["a","b"],"part":null}` {
		t.Errorf("%s, %v", text, err)
	}
	for _, bad := range []string{`{"order": 7}`, `[]`, `{"orderId": "x"}`, `{`, strings.Repeat(`{"part":`, 20_000)} {
		if got, err := c.Append([]byte("before"), []byte(bad)); err == nil || string(got) != "before" || !strings.Contains(err.Error(), "no shop.v1.Order: ") {
			t.Errorf("%.40s: %q, %v", bad, got, err)
		}
	}
	if _, err := c.JSON(nil, []byte("\x0a")); err == nil {
		t.Error("a message that is cut off is taken")
	}
}

// TestMethods: what is no method that can be called, and what are no descriptors.
func TestMethods(t *testing.T) {
	m, err := Parse(set(t, shop))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"shop.v1.Orders/Watch":  "",
		"shop.v1.Orders/Put":    "shop.v1.Orders/Put takes a stream of messages, a step sends one",
		"shop.v1.Orders/Delete": "the descriptors have no method shop.v1.Orders/Delete, they have shop.v1.Orders/Get, shop.v1.Orders/Put, shop.v1.Orders/Watch",
		"shop.v1.Order/Get":     "the descriptors have no method shop.v1.Order/Get, they have ",
		"Orders/Get":            "the descriptors have no method Orders/Get, they have ",
		"":                      "the descriptors have no method",
	} {
		_, err := m.Call(name)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	lacks := strings.Replace(shop, `"syntax": "proto3",`, `"syntax": "proto3", "dependency": ["google/protobuf/other.proto"],`, 1)
	for _, bad := range [][]byte{nil, []byte("no descriptors"), set(t, `{}`), set(t, lacks), set(t, strings.Replace(shop, ".shop.v1.Order\"", ".shop.v1.None\"", 1))} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%.40q is taken", bad)
		}
	}
	many := &descriptorpb.FileDescriptorSet{}
	for range MaxFiles + 1 {
		many.File = append(many.File, &descriptorpb.FileDescriptorProto{})
	}
	b, err := proto.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(b); err == nil || !strings.Contains(err.Error(), "2001 files") {
		t.Errorf("too many files: %v", err)
	}
}

// TestFraming: what are no messages.
func TestFraming(t *testing.T) {
	for _, bad := range []string{"\x00", "\x00\x00\x00\x00", "\x01\x00\x00\x00\x00", "\x00\x00\x00\x00\x02a", "\x00\xff\xff\xff\xffa", "\x00\x00\x00\x00\x00\x00"} {
		if last, _, err := Last([]byte(bad)); !errors.Is(err, ErrFraming) || last != nil {
			t.Errorf("%q: %q, %v", bad, last, err)
		}
	}
	if last, n, err := Last(nil); last != nil || n != 0 || err != nil {
		t.Errorf("nothing: %q, %d, %v", last, n, err)
	}
}

// TestStatus: how a call ended, by its trailers.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		status, message string
		code            Code
		why             string
		http            int
		name            string
	}{
		{"0", "", 0, "", 200, "OK"},
		{"5", "no%20such order", 5, "no such order", 404, "NOT_FOUND"},
		{"14", "100%", 14, "100%", 503, "UNAVAILABLE"},
		{"16", "", 16, "", 401, "UNAUTHENTICATED"},
		{"99", "", 99, "", 500, "code 99"},
	} {
		code, why, err := Status(c.status, c.message)
		if err != nil || code != c.code || why != c.why || code.HTTP() != c.http || code.String() != c.name {
			t.Errorf("%s: %d %s %q %d %v", c.status, code, code, why, code.HTTP(), err)
		}
	}
	for _, bad := range []string{"", "x", "-1", "70000", "0 "} {
		if _, _, err := Status(bad, ""); !errors.Is(err, ErrStatus) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for d, want := range map[time.Duration]string{0: "1m", -time.Second: "1m", 1500 * time.Millisecond: "1500m", 100 * time.Hour: "99999999m"} {
		if got := Timeout(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

// FuzzAnswers: whatever comes is an error or a message that has its JSON.
func FuzzAnswers(f *testing.F) {
	c := callOf(f, "shop.v1.Orders/Get")
	for _, text := range []string{"", `{"orderId": "7", "items": ["a"], "part": {"orderId": "-1"}}`} {
		b, err := c.Append(nil, []byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x00\x00\x00\x00\x02a"))
	f.Fuzz(func(t *testing.T, all []byte) {
		last, n, err := Last(all)
		if err != nil || n == 0 {
			return
		}
		text, err := c.JSON(nil, last)
		if err != nil {
			return
		}
		again, err := c.Append(nil, text)
		if err != nil {
			t.Fatalf("%q is %s, which is no message: %v", last, text, err)
		}
		if _, n, err := Last(again); n != 1 || err != nil {
			t.Errorf("%d messages, %v", n, err)
		}
	})
}

// FuzzParse: whatever is said to be descriptors is an error, or its methods can be called.
func FuzzParse(f *testing.F) {
	f.Add(set(f, shop))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		for name := range strings.SplitSeq(m.names(), ", ") {
			c, err := m.Call(name)
			if err != nil {
				continue
			}
			if sent, err := c.Append(nil, nil); err == nil {
				if _, err := c.JSON(nil, sent[headSize:]); err != nil && !strings.Contains(err.Error(), string(c.out.FullName())) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	})
}
