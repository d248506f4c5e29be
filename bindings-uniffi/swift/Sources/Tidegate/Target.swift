/// Name of the target that the running attempt goes to; nil outside of such an attempt. A closure maps the name, which is that of the document,
/// to a URL, a model or a key: so no secret need be in the document. Of nested calls the innermost one with targets counts.
///
/// It is a task-local value: child tasks and `Task { }` inherit it, detached tasks do not.
///
/// ```swift
/// let text = "targets.chat = {pick = 'ladder', members = ['large', 'small']}\npolicy.chat.targets = 'chat'"
/// let chat = try Policies(toml: text)["chat"]
/// let name = try await chat.run { _ in target() }  // "large"
/// ```
public func target() -> String? { Scope.current?.target }
