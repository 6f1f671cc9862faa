"""For the tests of whoever builds on this package: the conformance kit, fakes that misbehave, and hostile helpers.

`conformance` is the suite that every provider passes; `fakes` wraps a real sandbox or provider to be slow, silent or broken;
`hostile` holds helpers that attack their client.
"""
