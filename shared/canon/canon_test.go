package canon

import "testing"

// covers: P3
func TestEncodeOrdersNamesAndWritesNegativeZeroAsZero(t *testing.T) {
	got, err := Canonicalize([]byte(`{"b": -0.0, "a": [1.0, 1e2]}`))
	if err != nil || string(got) != `{"a":[1,100],"b":0}` {
		t.Fatalf("got %s, %v", got, err)
	}
}

func TestCheckRefusesWhatIsNotOneStrictValue(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": ``, "two values": `1 2`, "a duplicate name": `{"a":1,"a":2}`, "a lone surrogate": `"\ud800"`,
		"bad UTF-8": "\"\xff\"", "overflow": `1e400`, "half an object": `{"a":`,
	} {
		if Check([]byte(text)) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
