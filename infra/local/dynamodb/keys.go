package dynamodb

import (
	"slices"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
	"github.com/pxhost/pxhost/infra/local/dynamodb/expression"
)

const (
	maxPartitionKey = 2048 // bytes
	maxSortKey      = 1024 // bytes
	schemaMismatch  = "The provided key element does not match the schema"
)

// checkKey checks the Key of a request against the table.
func (t *table) checkKey(key attribute.Map) *apiError {
	if len(key) != len(t.Keys) {
		return errInvalid(schemaMismatch)
	}
	for i, a := range t.Keys {
		if key[a.Name].Kind() != a.Kind {
			return errInvalid(schemaMismatch)
		}
		if err := checkKeyValue(key[a.Name], a.Name, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// checkKeyValue checks the content of a value that is part of a table's key.
func checkKeyValue(v attribute.Value, name string, partition bool) *apiError {
	if kind, empty := emptyText(v); empty {
		return upfront(errInvalid("One or more parameter values are not valid. " +
			"The AttributeValue for a key attribute cannot contain an empty " + kind + " value. Key: " + name))
	}
	return checkKeySize(v, partition)
}

func checkKeySize(v attribute.Value, partition bool) *apiError {
	switch {
	case v.Kind() == attribute.N:
	case partition && len(v.Text()) > maxPartitionKey:
		return errParameter("Size of hashkey has exceeded the maximum size limit of2048 bytes")
	case !partition && len(v.Text()) > maxSortKey:
		return errParameter("Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
	}
	return nil
}

// emptyText tells whether v is an empty string or binary, and which.
func emptyText(v attribute.Value) (kind string, empty bool) {
	switch v.Kind() {
	case attribute.S:
		return "string", v.Text() == ""
	case attribute.B:
		return "binary", v.Text() == ""
	}
	return "", false
}

// upfront marks an error that a transaction tells as its own error, not as the
// reason of a cancellation.
func upfront(err *apiError) *apiError {
	err.upfront = true
	return err
}

// checkItem checks the keys of an item that is put into the table.
func (t *table) checkItem(item attribute.Map) *apiError {
	for i, a := range t.Keys {
		v := item[a.Name]
		switch {
		case v.IsZero():
			return errParameter("Missing the key " + a.Name + " in the item")
		case v.Kind() != a.Kind:
			return errParameter("Type mismatch for key " + a.Name + " expected: " + a.Kind.String() + " actual: " + v.Kind().String())
		}
		if err := checkKeyValue(v, a.Name, i == 0); err != nil {
			return err
		}
	}
	return t.eachIndexKey(func(index string, a keyAttribute, partition bool) *apiError {
		v := item[a.Name]
		if v.IsZero() {
			return nil
		}
		if v.Kind() != a.Kind {
			return errIndexKeyType(a, v.Kind(), index)
		}
		if kind, empty := emptyText(v); empty {
			return upfront(errInvalid("One or more parameter values are not valid. A value specified for a secondary index key is not supported. " +
				"The AttributeValue for a key attribute cannot contain an empty " + kind + " value. IndexName: " + index + ", IndexKey: " + a.Name))
		}
		return checkKeySize(v, partition)
	})
}

func errIndexKeyType(a keyAttribute, actual attribute.Kind, index string) *apiError {
	return errParameter("Type mismatch for Index Key " + a.Name + " Expected: " + a.Kind.String() +
		" Actual: " + actual.String() + " IndexName: " + index)
}

// eachIndexKey calls check for the key attributes of the indexes, in the order
// of the indexes' names, until one fails.
func (t *table) eachIndexKey(check func(index string, a keyAttribute, partition bool) *apiError) *apiError {
	indexes := slices.SortedFunc(slices.Values(t.Indexes), func(a, b tableIndex) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	for _, index := range indexes {
		for i, a := range index.Keys {
			if err := check(index.Name, a, i == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkUpdate checks, before any item is read, that an update leaves the
// table's key alone and gives index keys values that they can have.
func (t *table) checkUpdate(u *expression.Update) *apiError {
	if u == nil {
		return nil
	}
	for _, path := range u.Paths() {
		if t.Keys.has(path[0].Name) {
			return errParameter("Cannot update attribute " + path[0].Name + ". This attribute is part of the key")
		}
	}
	err := t.eachIndexKey(func(index string, a keyAttribute, _ bool) *apiError {
		if kind := u.Assigned(a.Name); kind != 0 && kind != a.Kind {
			return errIndexKeyType(a, kind, index)
		}
		if v, ok := u.AssignedValue(a.Name); ok {
			if kind, empty := emptyText(v); empty {
				return errEmptyIndexKeyUpdate(kind)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.checkScalarKeys(u.Nested())
}

func errEmptyIndexKeyUpdate(kind string) *apiError {
	return upfront(errInvalid("One or more parameter values are not valid. " +
		"The update expression attempted to update a secondary index key to a value that is not supported. " +
		"The AttributeValue for a key attribute cannot contain an empty " + kind + " value."))
}

// checkUpdated checks the index keys of an item that an update has made.
func (t *table) checkUpdated(item attribute.Map) *apiError {
	return t.eachIndexKey(func(_ string, a keyAttribute, partition bool) *apiError {
		v := item[a.Name]
		if v.IsZero() {
			return nil
		}
		if v.Kind() != a.Kind {
			return errInvalid("The update expression attempted to update the secondary index key to unsupported type")
		}
		if kind, empty := emptyText(v); empty {
			return errEmptyIndexKeyUpdate(kind)
		}
		if checkKeySize(v, partition) != nil {
			return errInvalid("The update expression attempted to update the secondary index key beyond allowed size limits")
		}
		return nil
	})
}

// checkScalarKeys fails if an expression leads into a key attribute.
func (t *table) checkScalarKeys(nested []string) *apiError {
	const scalar = "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
	for _, a := range t.Keys {
		if slices.Contains(nested, a.Name) {
			return errInvalid(scalar + "Key: " + a.Name)
		}
	}
	return t.eachIndexKey(func(_ string, a keyAttribute, _ bool) *apiError {
		if slices.Contains(nested, a.Name) {
			return errInvalid(scalar + "IndexKey: " + a.Name)
		}
		return nil
	})
}
